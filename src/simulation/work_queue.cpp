#include "simulation/work_queue.h"

#include <algorithm>
#include <vector>

namespace cohort {

void WorkQueue::add(const std::shared_ptr<Job>& job) {
  job->number = ++last_;
  pending_.insert(job);
}

// Some for each place: threads meet less often. Not more than a little memory holds until they are needed.
std::size_t WorkQueue::computedAtOnce() const {
  constexpr std::size_t kEach = 8;
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  const auto places = static_cast<std::size_t>(workbench_.places());
  if (places == 1) return 1;
  return std::max(places, std::min(kEach * places, kMostBytes / arenaBytes_));
}

void WorkQueue::require(const std::shared_ptr<Job>& job) {
  if (job->isComputed) return;
  std::vector<std::shared_ptr<Job>> batch{job};
  pending_.erase(job);
  while (!pending_.empty() && batch.size() < computedAtOnce()) {
    batch.push_back(*pending_.begin());
    pending_.erase(pending_.begin());
  }
  std::vector<Workbench::Task> tasks;
  tasks.reserve(batch.size());
  for (const auto& next : batch) tasks.push_back(next->task());
  workbench_.compute(tasks);
  for (const auto& next : batch) {
    next->isComputed = true;
    next->wasComputed();
  }
}

}  // namespace cohort
