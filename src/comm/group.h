// Some of the workers, who talk among themselves: members have numbers of their own, in the order of their ranks.
//
// A value; the communicator outlives it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace cohort {

class Group {
 public:
  // All workers.
  Group(Communicator& workers)  // NOLINT(google-explicit-constructor): all workers are a group
      : workers_(&workers), members_(static_cast<std::size_t>(workers.size())), rank_(workers.rank()) {
    std::iota(members_.begin(), members_.end(), 0);
  }
  // These, and this worker is one of them.
  Group(Communicator& workers, std::vector<int> members) : workers_(&workers), members_(std::move(members)) {
    const auto own = std::ranges::find(members_, workers.rank());
    COHORT_CHECK(own != members_.end(), "a worker is in its group");
    rank_ = static_cast<int>(own - members_.begin());
  }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  // A member among all workers.
  int workerOf(int member) const { return members_[static_cast<std::size_t>(member)]; }
  Communicator& workers() const { return *workers_; }

  Communicator::Transfer& addSend(int to, int tag, std::span<const std::byte> memory,
                                  std::function<void()> done = {}) const {
    return workers_->addSend(workerOf(to), tag, memory, std::move(done));
  }
  Communicator::Transfer& addReceive(int from, int tag, std::span<std::byte> memory,
                                     std::function<void()> done = {}) const {
    return workers_->addReceive(workerOf(from), tag, memory, std::move(done));
  }
  void start(Communicator::Transfer& transfer) const { workers_->start(transfer); }
  void waitUntil(const std::function<bool()>& ready, const std::function<std::string()>& what) const {
    workers_->waitUntil(ready, what);
  }

 private:
  Communicator* workers_;
  std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace cohort
