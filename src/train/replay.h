// A run with a center, computed again in one process from its servers' journals: the same updates in the same order, with gradients of
// the same weights, and so the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/run.h"

namespace cohort {

struct ReplayOptions {
  std::filesystem::path run;                     // a job directory
  std::vector<std::filesystem::path> folders{};  // others with journals
  int threads = 0;                               // 0: every core
  // Updates that are done, of so many; on the calling thread.
  std::function<void(std::int64_t done, std::int64_t all)> progressed = [](std::int64_t, std::int64_t) {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

struct ReplayResult {
  Step first = 0;  // where it began
  Step last = 0;   // the step of the last checkpoint
  std::int64_t updates = 0;
  std::int64_t computed = 0;  // gradients
  int openings = 0;
  int lives = 0;
  std::int64_t lost = 0;     // updates
  std::vector<Step> same{};  // checkpoints with the same bits
  std::string difference{};  // the first; empty: there is none
  std::string
      weightsHash{};  // of the last checkpoint's moment, as it was computed here; empty where it was not reached
  double seconds = 0;
};

// UsageError where something is missing (the sentence says what) or this machine lacks the run's instruction set, IoError where a
// file is damaged.
ReplayResult replayRun(const RunContext& context, const ReplayOptions& options);

}  // namespace cohort
