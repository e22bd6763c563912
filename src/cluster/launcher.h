// Who has started this process, and so who else there is: what a command asks of its flags and its environment.
#pragma once

#include <variant>

#include "cluster/cluster_map.h"
#include "cluster/environment.h"
#include "cluster/host_flags.h"
#include "cluster/mpi_place.h"
#include "cluster/slurm.h"

namespace cohort {

// Nobody whom the environment tells of: a run of this process alone, or of those that it starts itself.
struct NoLauncher {
  bool operator==(const NoLauncher&) const = default;
};

// Members with roles and addresses, from flags or from TF_CONFIG.
struct NamedCluster {
  enum class Source { Flags, TfConfig } source = Source::Flags;
  ClusterMap cluster;

  bool operator==(const NamedCluster&) const = default;
};

using Launcher = std::variant<NoLauncher, NamedCluster, MpiPlace, SlurmStep, SlurmJob>;

// What was said on purpose comes first: flags, then TF_CONFIG, then mpirun's variables, then a SLURM step's, then those of a
// SLURM job without a step. UsageErrors as each of these says.
Launcher findLauncher(const Environment& environment, const HostFlags& flags);

}  // namespace cohort
