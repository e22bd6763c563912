// A process's place among those that an MPI launcher has started, as Open MPI's mpirun and PMIx tell it before MPI is
// initialised. Neither names the others' hosts: these are known once the workers have met (tasksOnHosts).
#pragma once

#include <optional>

#include "cluster/environment.h"

namespace cohort {

struct MpiPlace {
  int rank = 0;
  std::optional<int> size = {};  // PMIx alone tells the rank and nothing else
  std::optional<int> localRank = {};
  std::optional<int> localSize = {};

  // Whether all run on this host, as far as is known.
  bool isOneHost() const { return size.has_value() && size == localSize; }
  bool operator==(const MpiPlace&) const = default;
};

// Nothing where no launcher tells one. UsageErrors where what it tells cannot be.
std::optional<MpiPlace> findMpiPlace(const Environment& environment);

}  // namespace cohort
