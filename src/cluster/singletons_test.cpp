#include "cluster/singletons.h"

#include <gtest/gtest.h>

#include "base/test_error.h"

namespace cohort {
namespace {

TEST(Singletons, AreNoneWhereMpiSeesTheOthersOrNobodyElseIs) {
  const Environment mpich = {{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}};
  EXPECT_EQ(singletonsNote(mpich, 4), "");
  EXPECT_EQ(singletonsNote({}, 1), "");
  EXPECT_EQ(singletonsNote({{"PMI_SIZE", "1"}}, 1), "");
  EXPECT_EQ(singletonsNote({{"OMPI_COMM_WORLD_SIZE", "1"}}, 1), "");
  EXPECT_EQ(singletonsNote({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, 1), "");
}

TEST(Singletons, AreNotABatchScript) {
  EXPECT_EQ(singletonsNote({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, 1), "");
}

TEST(Singletons, OfAnotherMpirunAreToldToUseOpenMpis) {
  EXPECT_EQ(singletonsNote({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}, 1),
            "another MPI's mpirun (MPICH's or Intel's) has started 4 tasks, and MPI knows nothing of it: "
            "each would "
            "train alone; use Open MPI's, which cohort was built with (mpirun --version says whose it is)");
  // Inside of a job its helpers are a step of their own.
  EXPECT_BEGINS(singletonsNote({{"PMI_SIZE", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 1),
                "another MPI's mpirun");
}

TEST(Singletons, OfSrunAreToldTheMissingFlag) {
  const Environment step = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "6"}};
  EXPECT_EQ(
      singletonsNote(step, 1),
      "srun has started 6 tasks, and MPI knows nothing of it: each would train alone; give srun --mpi=pmix "
      "(srun --mpi=list names what this SLURM has), or start it by mpirun");
  EXPECT_MENTIONS(singletonsNote({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "6"}}, 1), "give srun --mpi=pmix");
  Environment pmi2 = step;
  pmi2["PMI_SIZE"] = "6";
  EXPECT_MENTIONS(singletonsNote(pmi2, 1), "give srun --mpi=pmix");
}

TEST(Singletons, OfAnMpiWithoutPmixAreToldToBuildAnother) {
  EXPECT_MENTIONS(singletonsNote({{"SLURM_STEP_NUM_TASKS", "6"}, {"PMIX_RANK", "2"}}, 1),
                  "build cohort with an Open MPI that has PMIx");
}

TEST(Singletons, OfAnotherOpenMpiAreToldToUseItsMpirun) {
  EXPECT_MENTIONS(singletonsNote({{"OMPI_COMM_WORLD_SIZE", "2"}}, 1), "use the mpirun of the Open MPI");
  EXPECT_EQ(singletonsNote({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}}, 1), "")
      << "one task of mpirun; the step is that of its helpers";
}

}  // namespace
}  // namespace cohort
