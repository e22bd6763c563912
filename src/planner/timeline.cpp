#include "planner/timeline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {

void Timeline::at(double time, Action action) {
  COHORT_CHECK(time >= now_, "nothing happens in the past");
  events_.push({time, planned_++, std::move(action)});
}

void Timeline::run() {
  while (!events_.empty()) {
    now_ = events_.top().time;
    // The queue only lends its greatest; it is on its way out.
    const Action action =
        std::move(const_cast<Event&>(events_.top()).action);  // NOLINT(*-const-cast): see above
    events_.pop();
    action();
  }
}

Communication::Communication(const WorkerNetwork& network, Timeline& timeline)
    : network_(network),
      timeline_(timeline),
      threadFree_(network.hostOf.size()),
      sentBytes_(network.hostOf.size()),
      cables_(network.hosts.size()) {}

Communication::Busy Communication::work(int worker, double seconds) {
  double& free = threadFree_[static_cast<std::size_t>(worker)];
  const double begin = std::max(timeline_.now(), free);
  free = begin + seconds;
  return {begin, free};
}

Communication::Busy Communication::send(int from, int to, std::size_t bytes, Timeline::Action arrived) {
  double& threadFree = threadFree_[static_cast<std::size_t>(from)];
  sentBytes_[static_cast<std::size_t>(from)] += bytes;
  double begin = std::max(timeline_.now(), threadFree);
  const int host = network_.hostOf[static_cast<std::size_t>(from)];
  const int target = network_.hostOf[static_cast<std::size_t>(to)];
  const double latency = network_.link(from, to).latency;
  if (host == target) {
    threadFree = begin + transferSeconds(bytes, network_.sameHost.bandwidth);
    timeline_.at(threadFree + latency, std::move(arrived));
    return {begin, threadFree};
  }
  Cable& out = cables_[static_cast<std::size_t>(host)];
  begin = std::max(begin, out.outFree);
  const double left = begin + transferSeconds(bytes, network_.host(from).cable.bandwidth);
  threadFree = out.outFree = left;
  timeline_.at(begin + latency, [this, target, to, bytes, last = left + latency,
                                 arrived = std::move(arrived)]() mutable {
    Cable& in = cables_[static_cast<std::size_t>(target)];
    const double comes = std::max(timeline_.now(), in.inFree);
    in.inFree = std::max(comes + transferSeconds(bytes, network_.host(to).cable.bandwidth), last);
    timeline_.at(in.inFree, std::move(arrived));
  });
  return {begin, left};
}

}  // namespace cohort
