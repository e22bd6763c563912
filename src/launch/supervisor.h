// Starts the workers of a run by mpirun, shows what they tell, and starts them again from the last checkpoint when one of
// them dies or stands still.
//
// One thread, without MPI and OpenMP. All that it starts ends with it, however it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/console.h"
#include "train/job_directory.h"

namespace cohort {

struct SupervisorOptions {
  std::vector<std::string> command;  // a worker's program and arguments
  int workers = 2;
  int maxRestarts = 3;  // in a row without a new checkpoint
  // After a death: how many workers to go on with instead of so many. Nothing: as many.
  std::function<int(int workers)> fewer{};
  double stallSeconds = 60;
  std::optional<std::uint64_t> chaos{};  // kill and freeze workers, as this seed has it
};

// Returns the exit code that the first worker ends with: 0, or that of a run that stopped after a checkpoint because this
// process was sent a SIGINT, SIGTERM or SIGUSR1; a second one ends everything at once. UsageError and IoError as the workers
// say; PeerError where they die and starting them again is of no use.
int supervise(const SupervisorOptions& options, const JobDirectory& job, Screen& screen);

}  // namespace cohort
