#include "cluster/launcher.h"

#include "cluster/tf_config.h"

namespace cohort {
namespace {

// Inside of a SLURM job mpirun starts its helpers by srun, so that its tasks have a step's variables too, of the helpers' step.
// Where srun itself started the tasks for MPI, both tell the same.
bool isMpirunInJob(const Environment& environment) {
  return isSet(environment, "OMPI_COMM_WORLD_RANK") &&
         (textOf(environment, "OMPI_COMM_WORLD_RANK") != textOf(environment, "SLURM_PROCID") ||
          textOf(environment, "OMPI_COMM_WORLD_SIZE") != textOf(environment, "SLURM_STEP_NUM_TASKS"));
}

}  // namespace

Launcher findLauncher(const Environment& environment, const HostFlags& flags) {
  if (flags.areGiven())
    return NamedCluster{.source = NamedCluster::Source::Flags, .cluster = clusterOf(flags)};
  if (const auto text = textOf(environment, "TF_CONFIG"))
    return NamedCluster{.source = NamedCluster::Source::TfConfig, .cluster = parseTfConfig(*text)};
  if (!isMpirunInJob(environment)) {
    if (const auto step = findSlurmStep(environment)) return *step;
  }
  if (const auto place = findMpiPlace(environment)) return *place;
  if (const auto job = findSlurmJob(environment)) return *job;
  return NoLauncher{};
}

}  // namespace cohort
