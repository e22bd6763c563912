#include "cluster/launcher.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

const Environment kTfConfig = {
    {"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
const Environment kJob = {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_PROCID", "0"}};
const Environment kStep = {{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_PROCID", "1"},         {"SLURM_STEP_TASKS_PER_NODE", "2"}};

Environment both(Environment one, const Environment& other) {
  one.insert(other.begin(), other.end());
  return one;
}

template <class Kind>
bool finds(const Environment& environment, const HostFlags& flags = {}) {
  return std::holds_alternative<Kind>(findLauncher(environment, flags));
}

TEST(Launcher, IsToldByItsVariables) {
  EXPECT_TRUE(finds<NoLauncher>({{"HOME", "/root"}}));
  EXPECT_TRUE(finds<NamedCluster>(kTfConfig));
  EXPECT_TRUE(finds<MpiPlace>(kMpirun));
  EXPECT_TRUE(finds<MpiPlace>({{"PMIX_RANK", "0"}}));
  EXPECT_TRUE(finds<SlurmJob>(kJob));
  EXPECT_TRUE(finds<SlurmStep>(kStep));
}

TEST(Launcher, IsWhatWasSaidOnPurpose) {
  const HostFlags flags{.workerHosts = "b:1", .jobName = "worker", .taskIndex = 0};
  const auto byFlags = std::get<NamedCluster>(findLauncher(both(kTfConfig, kStep), flags));
  EXPECT_EQ(byFlags.source, NamedCluster::Source::Flags);
  EXPECT_EQ(byFlags.cluster.self().host, "b");
  const auto byVariable = std::get<NamedCluster>(findLauncher(both(kTfConfig, kStep), {}));
  EXPECT_EQ(byVariable.source, NamedCluster::Source::TfConfig);
  EXPECT_TRUE(finds<NamedCluster>(both(kTfConfig, kMpirun)));
  EXPECT_THROW(findLauncher(kStep, {.taskIndex = 0}), UsageError) << "half of the flags are not none";
}

TEST(Launcher, IsSrunWhereItStartsTasksOfMpi) {
  EXPECT_TRUE(finds<SlurmStep>(both(kStep, {{"PMIX_RANK", "1"}})));
  EXPECT_TRUE(finds<SlurmStep>(both(kStep, kMpirun))) << "both say rank 1 of 2, and SLURM knows the hosts";
}

TEST(Launcher, IsMpirunInsideOfAJob) {
  EXPECT_TRUE(finds<MpiPlace>(both(kJob, kMpirun)));
  Environment helpers = both(kMpirun, kStep);
  helpers["SLURM_PROCID"] = "0";
  EXPECT_TRUE(finds<MpiPlace>(helpers)) << "the step is that of mpirun's helpers";
  helpers = both(kMpirun, kStep);
  helpers["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_TRUE(finds<MpiPlace>(helpers));
}

}  // namespace
}  // namespace cohort
