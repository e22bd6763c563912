// Gives everybody all of an arena of which each worker has its slices.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "sync/bucket_plan.h"

namespace cohort {

class SliceGather {
 public:
  // Tags from `tag` on are its own, one for each slice of a worker. The arena outlives this.
  SliceGather(Communicator& workers, const Ownership& owned, std::span<float> arena, int tag);

  // By all workers, each with its own slices filled; on return all are. `what` is gathered, for the error's sentence.
  void run(const std::string& what);

 private:
  std::string missing(const std::string& what) const;

  Communicator& workers_;
  std::vector<Communicator::Transfer*> transfers_;
  std::vector<int> slices_;             // by worker, to be received
  std::vector<std::atomic<int>> owed_;  // and have not come yet
  std::atomic<int> underWay_ = 0;
};

}  // namespace cohort
