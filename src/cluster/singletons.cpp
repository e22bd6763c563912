#include "cluster/singletons.h"

#include <optional>

#include <fmt/format.h>

namespace cohort {
namespace {

std::string noteOf(const char* launcher, int tasks, const std::string& fix) {
  return fmt::format("{} has started {} tasks, and MPI knows nothing of it: each would train alone; {}",
                     launcher, tasks, fix);
}

// Of tasks that srun has started; nothing for others.
std::optional<int> stepTasks(const Environment& environment) {
  if (const std::optional<int> tasks = numberOf(environment, "SLURM_STEP_NUM_TASKS")) return tasks;
  return isSet(environment, "SLURM_STEP_ID") ? numberOf(environment, "SLURM_NTASKS") : std::nullopt;
}

}  // namespace

std::string singletonsNote(const Environment& environment, int mpiSize) {
  if (mpiSize > 1) return "";
  // mpirun inside of a SLURM job starts its helpers as a step: its own word comes first.
  if (const std::optional<int> tasks = numberOf(environment, "OMPI_COMM_WORLD_SIZE")) {
    if (*tasks <= 1) return "";
    return noteOf("Open MPI's mpirun", *tasks,
                  "use the mpirun of the Open MPI that cohort was built with (ldd names its libmpi)");
  }
  const std::optional<int> step = stepTasks(environment);
  const std::optional<int> pmi = numberOf(environment, "PMI_SIZE");
  if (pmi && *pmi > 1 && pmi != step) {
    return noteOf("another MPI's mpirun (MPICH's or Intel's)", *pmi,
                  "use Open MPI's, which cohort was built with (mpirun --version says whose it is)");
  }
  if (!step || *step <= 1) return "";
  return isSet(environment, "PMIX_RANK")
             ? noteOf(
                   "srun", *step,
                   "build cohort with an Open MPI that has PMIx (ompi_info says so), or start it by mpirun")
             : noteOf(
                   "srun", *step,
                   "give srun --mpi=pmix (srun --mpi=list names what this SLURM has), or start it by mpirun");
}

}  // namespace cohort
