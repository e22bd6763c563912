// Starts the servers and workers of a run with a center on this machine, shows what they tell, and starts again what dies: a worker
// alone, while the others go on; a server, which its workers find again.
//
// One thread, without gRPC and OpenMP. All that it starts ends with it, however it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/console.h"
#include "train/job_directory.h"

namespace cohort {

// Set for supervised workers of a center: which one it is.
inline constexpr const char* kWorkerVariable = "COHORT_WORKER";

// In the job directory while the run goes: its servers' addresses, in their order.
inline constexpr const char* kCenterFile = "center.txt";

struct CenterSupervisorOptions {
  std::string program;                     // this one's path
  std::vector<std::string> workerCommand;  // a worker's arguments, without what it joins
  int workers = 1;
  int servers = 1;
  int maxRestarts = 3;  // of a worker, in a row without a step of the run
  double stallSeconds = 60;
  double snapshotSeconds = 30;
  std::optional<std::uint64_t> chaos{};  // kill and freeze workers, as this seed has it
};

// Returns the exit code of the run: 0, or that of one that was stopped after a checkpoint because this process was sent a SIGINT,
// SIGTERM or SIGUSR1; a second one ends everything at once. UsageError and IoError as the workers say; PeerError where they die
// and starting them again is of no use.
int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen);

}  // namespace cohort
