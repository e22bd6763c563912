// Where a run stands, as its job directory tells: what each of its processes says of itself, and what that comes to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/worker_status.h"

namespace cohort {

struct ProcessView {
  WorkerStatus status;
  double age = 0;       // seconds since its last word
  bool isGone = false;  // known to have ended: it was a process of this host, which has it no more
};

struct RunView {
  std::vector<ProcessView> processes;  // workers, then servers
  std::string verdict;                 // a sentence
};

// Takes a second or two where something has not been heard of for a while, or a clock seems to be wrong. UsageError where there
// never was a run; a center that waits for its first worker is one (`hasCenter`).
RunView lookAtRun(const std::filesystem::path& jobDirectory, bool hasCenter);

// "worker 2 on n3", "server 0 on n1".
std::string nameOf(const WorkerStatus& status);

}  // namespace cohort
