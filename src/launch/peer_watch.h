// A worker that nobody supervises looks at the others' status files while it waits for one of them. Ages are by its own clock: a
// file is as old as the time since it was last seen to change, whatever the hosts' clocks say. Private to launch. One thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "launch/worker_status.h"

namespace cohort {

class PeerWatch {
 public:
  PeerWatch(std::filesystem::path jobDirectory, double stallSeconds)
      : directory_(std::move(jobDirectory)), stallSeconds_(stallSeconds) {}

  // About once a second, with what this worker says of itself. Returns a sentence where one of the `count` workers has stood still
  // for the time of a stall while this one waited; otherwise nothing.
  std::string look(const WorkerStatus& own, int count);

 private:
  struct Seen {
    double written = 0;
    Clock::time_point changed = Clock::now();
  };

  std::filesystem::path directory_;
  double stallSeconds_;
  Clock::time_point last_ = Clock::now();
  Clock::time_point begin_ =
      Clock::now();  // of waiting, or of this process's own life after it was frozen itself
  std::map<std::string, Seen> seen_;
};

}  // namespace cohort
