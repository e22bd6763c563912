// The command line, for the program and for a user's own: a page that adds a network and calls run() has all of it.
#pragma once

#include "models/network.h"

namespace cohort {

// Exit codes, also in docs/command-line.md.
enum ExitCode : int {
  kSuccess = 0,
  kInternalError = 1,
  kUsageError = 2,  // the user can fix it; the message says how
  kIoError = 3,     // a file or the system failed
  kResume = 75      // stopped by a signal after a checkpoint: run the same command to go on
};

// Runs `cohort ARGUMENTS…` and returns the exit code.
int run(int argc, const char* const* argv, const NetworkRegistry& networks = builtinNetworks());

}  // namespace cohort
