// Starts the workers of a run by mpirun, shows what they tell, and starts them again from the last checkpoint when one of
// them dies or stands still.
//
// One thread, without MPI and OpenMP. All that it starts ends with it, however it ends.
#pragma once

#include <functional>

#include "launch/supervision.h"
#include "report/console.h"
#include "train/job_directory.h"

namespace cohort {

struct SupervisorOptions {
  Supervision common{};  // restarts count between which there is no new checkpoint
  // After a death: how many workers to go on with instead of so many. Nothing: as many.
  std::function<int(int workers)> fewer{};
};

// Returns the exit code that the first worker ends with: 0, or that of a run that stopped after a checkpoint because this
// process was sent a SIGINT, SIGTERM or SIGUSR1; a second one ends everything at once. UsageError and IoError as the workers
// say; PeerError where they die and starting them again is of no use.
int supervise(const SupervisorOptions& options, const JobDirectory& job, Screen& screen);

}  // namespace cohort
