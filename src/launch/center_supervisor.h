// Starts the servers and workers of a run with a center on this machine, shows what they tell, and starts again what dies: a worker
// alone, while the others go on; a server, which its workers find again.
//
// One thread, without gRPC and OpenMP. All that it starts ends with it, however it ends.
#pragma once

#include "launch/supervision.h"
#include "report/console.h"
#include "train/job_directory.h"

namespace cohort {

// Set for supervised workers of a center: which one it is.
inline constexpr const char* kWorkerVariable = "COHORT_WORKER";

struct CenterSupervisorOptions {
  // The program is that of the servers too; workers are also told what to join. Restarts of a worker or server count between which
  // the run makes no step.
  Supervision common{};
  int servers = 1;
  double recoverySeconds = 60;  // that a worker waits for a server, and may stand still
  double snapshotSeconds = 30;
};

// Returns the exit code of the run: 0, or that of one that was stopped after a checkpoint because this process was sent a SIGINT,
// SIGTERM or SIGUSR1; a second one ends everything at once. UsageError and IoError as the workers say; PeerError where they die
// and starting them again is of no use.
int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen);

}  // namespace cohort
