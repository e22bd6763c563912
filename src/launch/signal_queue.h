// The signals that ask a process to stop, as something to read: SIGINT, SIGTERM and SIGUSR1 are blocked in the thread that makes
// this, and in those that it starts later. Private to launch.
#pragma once

#include <optional>

#include "base/descriptor.h"

namespace cohort {

class SignalQueue {
 public:
  // IoError where the system has none left.
  SignalQueue();

  // To wait for one with poll.
  int descriptor() const { return signals_.get(); }
  // The next that came; nothing where none did. Returns at once.
  std::optional<int> next();

 private:
  Descriptor signals_;
};

}  // namespace cohort
