// Looks at a worker of this process, again and again: what it does and for how long, whom it waits for, whether it moves.
// Private to launch. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "comm/communicator.h"
#include "train/activity.h"

namespace cohort {

struct WorkerSign {
  Step step = 0;  // done
  bool isTraining = false;
  bool mayRest = false;          // may stand still without waiting for anybody
  std::string doing{};           // "in forward conv2"
  double doingSeconds = 0;       // for so long
  std::string waitsFor{};        // "worker 1: its part of step 12"; empty where it does not wait
  bool waitsForAnother = false;  // that is a worker, not a server
  std::uint64_t beats = 0;       // goes up with what is done: steps, grains, messages, time that is computed
  double stillSeconds = 0;       // since that last happened
};

class SignSampler {
 public:
  // `workers`: nullptr for one of a center that is in no group. `first`: the number of the first one among all of the run's. Both
  // outlive this.
  SignSampler(Communicator* workers, const Activity& activity, int first = 0)
      : workers_(workers), activity_(activity), first_(first) {}

  // `otherSeconds`: processor time of threads that only look and tell, without the calling one.
  WorkerSign look(double otherSeconds);

 private:
  // Of all threads but those that only look, tell, and carry messages.
  double workSeconds(double otherSeconds) const;
  void countWork(double work, bool isWaiting);
  std::string waitingFor() const;

  Communicator* workers_;
  const Activity& activity_;
  int first_;
  Clock::time_point looked_ = Clock::now();
  double worked_ = 0;   // until the last look
  double counted_ = 0;  // of it, towards the next beat
  std::uint64_t workBeats_ = 0;
  std::uint64_t beats_ = 0;
  Clock::time_point moved_ = Clock::now();
  std::string stay_;  // what it does, and where in its work
  Clock::time_point since_ = Clock::now();
};

}  // namespace cohort
