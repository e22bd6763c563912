// Which of a host's cores are whose. Workers whose launcher left them the same cores divide these; one that was bound to cores
// of its own has them. Workers under one limit of processor time (a container's) share it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/cpu_limit.h"
#include "comm/channel.h"

namespace cohort {

struct WorkerCores {
  std::string host;
  int online = 1;            // that the host has
  std::vector<int> allowed;  // that this worker may use
  bool isBound = false;      // mpirun chose them
  std::optional<CpuLimit> limit{};

  bool operator==(const WorkerCores&) const = default;
};

// This process's.
WorkerCores workerCores();

// Everybody's, by rank, on all workers; all call this.
std::vector<WorkerCores> gatherCores(const Channel& workers);

// What the worker `rank` owns; `cores` are its host's, as far as it may use them.
OwnedCores coresOfWorker(const std::vector<WorkerCores>& all, int rank, const std::vector<Core>& cores);
// The same of this host.
OwnedCores coresOfWorker(const std::vector<WorkerCores>& all, int rank);

// "LANES:CORES:0-3,8" and back; UsageErrors that name `source`.
std::string ownedCoresText(const OwnedCores& owned);
OwnedCores parseOwnedCores(const std::string& text, const std::string& source);

// What to say where mpirun's binding leaves lanes without cores, or cores without lanes; otherwise empty. `threads` are what was
// asked for, 0 where the cores decide.
std::string bindingNote(const std::vector<WorkerCores>& all, int rank, int threads);

}  // namespace cohort
