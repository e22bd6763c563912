#include "launch/slurm_client.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

// As scontrol 22.05 prints it, in part.
constexpr const char* kRunning =
    "JobId=17 JobName=a UserId=root(0) Priority=42 Account=(null) JobState=RUNNING Reason=None "
    "Dependency=(null) "
    "Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:04 Partition=main "
    "AllocNode:Sid=host:1 ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-3] BatchHost=n1 NumNodes=3";

TEST(SlurmClient, ReadsAJobsState) {
  const SlurmJobState expected{.state = "RUNNING", .nodes = "n[1-3]", .restarts = 1};
  EXPECT_EQ(parseJobState(kRunning), expected);
  EXPECT_EQ(toText("17", expected), "job 17: RUNNING on n[1-3], start 2");
  EXPECT_FALSE(expected.isOver());
}

TEST(SlurmClient, ReadsWhyAJobWaits) {
  const auto state =
      parseJobState("JobId=17 JobState=PENDING Reason=Resources Restarts=0 ExitCode=0:0 NodeList=(null)");
  ASSERT_TRUE(state);
  EXPECT_EQ(toText("17", *state), "job 17: PENDING (Resources)");
  EXPECT_FALSE(state->isOver());
}

TEST(SlurmClient, ReadsHowAJobEnded) {
  const auto state =
      parseJobState("JobId=17 JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=2:0 NodeList=n1");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->exitCode, 2);
  EXPECT_TRUE(state->isOver());
}

TEST(SlurmClient, IsSilentWhereNoStateIsTold) {
  EXPECT_FALSE(parseJobState(""));
  EXPECT_FALSE(parseJobState("slurm_load_jobs error: Invalid job id specified"));
}

TEST(SlurmClient, TakesTheNumberFromWhatSbatchPrints) {
  EXPECT_EQ(parseSubmission("17"), "17");
  EXPECT_EQ(parseSubmission("17;east"), "17");
  EXPECT_EQ(parseSubmission("sbatch: welcome to the cluster\n17"), "17");
  EXPECT_FALSE(parseSubmission(""));
  EXPECT_FALSE(parseSubmission("sbatch: error: invalid partition"));
}

}  // namespace
}  // namespace cohort
