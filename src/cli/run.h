// The command line, for the program and for a user's own: a page that adds a network, a dataset or a rule and calls run() has
// all of it.
#pragma once

#include "data/dataset.h"
#include "models/network.h"
#include "sync/exchange_rule.h"

namespace cohort {

// Exit codes, also in docs/command-line.md.
inline constexpr int kSuccess = 0;
inline constexpr int kInternalError = 1;
inline constexpr int kUsageError = 2;  // the user can fix it; the message says how
inline constexpr int kIoError = 3;     // a file or the system failed
inline constexpr int kPeerError = 4;   // a worker failed, and starting it again was of no use
inline constexpr int kDiffers = 5;     // cohort verify, replay: the runs are not the same
inline constexpr int kUnfit = 6;       // cohort doctor: something was found
inline constexpr int kStopped = 7;     // a virtual run was stopped by a signal: it can only start anew
inline constexpr int kResume = 75;  // stopped by a signal after a checkpoint: run the same command to go on

// Runs `cohort ARGUMENTS…` and returns the exit code.
int run(int argc, const char* const* argv, const NetworkRegistry& networks = builtinNetworks(),
        const DatasetRegistry& datasets = builtinDatasets(),
        const ExchangeRules& rules = builtinExchangeRules());

}  // namespace cohort
