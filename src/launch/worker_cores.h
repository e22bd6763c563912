// Which of a host's cores are whose. Workers whose launcher left them the same cores divide these; one that was bound to cores
// of its own has them.
#pragma once

#include <string>
#include <vector>

#include "comm/channel.h"

namespace cohort {

struct WorkerCores {
  std::string host;
  int online = 1;            // that the host has
  std::vector<int> allowed;  // that this worker may use
  bool isBound = false;      // mpirun chose them

  bool operator==(const WorkerCores&) const = default;
};

// Everybody's, by rank, on all workers; all call this.
std::vector<WorkerCores> gatherCores(const Channel& workers);

// For the lanes of the worker `rank`; empty where there are more workers than cores and it has none for itself.
std::vector<int> coresOfWorker(const std::vector<WorkerCores>& all, int rank);

// What to say where mpirun's binding leaves lanes without cores, or cores without lanes; otherwise empty. `threads` are what was
// asked for, 0 where the cores decide.
std::string bindingNote(const std::vector<WorkerCores>& all, int rank, int threads);

}  // namespace cohort
