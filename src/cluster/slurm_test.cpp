#include "cluster/slurm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

// Rank 3 of: srun -N3 with two tasks on the first two nodes, one on the third.
Environment stepEnvironment() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_JOB_NODELIST", "n[1-9]"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_PROCID", "3"},
          {"SLURM_NODEID", "1"},
          {"SLURM_LOCALID", "1"},
          {"SLURMD_NODENAME", "n2"}};
}

// With these variables changed, or removed where their text is "-".
SlurmStep stepWith(const Environment& changes) {
  Environment environment = stepEnvironment();
  for (const auto& [name, text] : changes) {
    environment[name] = text;
    if (text == "-") environment.erase(name);
  }
  return findSlurmStep(environment).value();
}

std::string hostsByRank(const SlurmStep& step) {
  std::string text;
  for (const PlacedTask& task : step.tasks.tasks)
    text += (text.empty() ? "" : " ") + task.host + "/" + std::to_string(task.localIndex);
  return text;
}

std::string refusal(const Environment& changes) {
  return errorOf<UsageError>([&] { stepWith(changes); });
}

TEST(SlurmStep, KnowsWhereEveryTaskIs) {
  const SlurmStep step = stepWith({{"SLURM_CPUS_PER_TASK", "4"}, {"SLURM_RESTART_COUNT", "2"}});
  EXPECT_EQ(hostsByRank(step), "n1/0 n1/1 n2/0 n2/1 n3/0");
  EXPECT_EQ(step.tasks.me, 3);
  EXPECT_EQ(step.tasks.self(), (PlacedTask{"n2", 1, 1}));
  EXPECT_EQ(step.job.id, "17");
  EXPECT_EQ(step.id, "0");
  EXPECT_EQ(step.job.restarts, 2);
  EXPECT_EQ(step.coresPerTask, 4);
  EXPECT_EQ(stepWith({}).coresPerTask, std::nullopt);
  EXPECT_EQ(stepWith({}).job.restarts, 0);
}

TEST(SlurmStep, TakesItsOwnTasksNotItsJobs) {
  const SlurmStep step = stepWith({{"SLURM_NTASKS", "64"}, {"SLURM_TASKS_PER_NODE", "8(x8)"}});
  EXPECT_EQ(step.tasks.tasks.size(), 5u);
  EXPECT_EQ(step.tasks.hosts().size(), 3u);
}

TEST(SlurmStep, TakesWhatOlderVersionsCallTheSame) {
  EXPECT_EQ(stepWith({{"SLURM_STEP_NUM_TASKS", "-"}}), stepWith({}));
  EXPECT_EQ(stepWith({{"SLURM_STEP_NODELIST", "-"}, {"SLURM_JOB_NODELIST", "n[1-3]"}}).tasks,
            stepWith({}).tasks);
  EXPECT_EQ(stepWith({{"SLURM_NODEID", "-"}, {"SLURM_LOCALID", "-"}, {"SLURMD_NODENAME", "-"}}),
            stepWith({}));
}

TEST(SlurmStep, IsDistributedAsSlurmSays) {
  EXPECT_EQ(stepWith({{"SLURM_DISTRIBUTION", "block"}}), stepWith({}));
  EXPECT_EQ(stepWith({{"SLURM_DISTRIBUTION", "block:cyclic,NoPack"}}), stepWith({}));
  const Environment cyclic = {{"SLURM_DISTRIBUTION", "cyclic"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1,3(x2)"},
                              {"SLURM_STEP_NUM_TASKS", "7"}};
  EXPECT_EQ(hostsByRank(stepWith(cyclic)), "n1/0 n2/0 n3/0 n2/1 n3/1 n2/2 n3/2");
  const Environment planes = {{"SLURM_DISTRIBUTION", "plane"},
                              {"SLURM_DIST_PLANESIZE", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4,2,1"},
                              {"SLURM_STEP_NUM_TASKS", "7"}};
  EXPECT_EQ(hostsByRank(stepWith(planes)), "n1/0 n1/1 n2/0 n2/1 n3/0 n1/2 n1/3");
  EXPECT_MENTIONS(refusal({{"SLURM_DISTRIBUTION", "arbitrary"}}),
                  "SLURM_DISTRIBUTION is 'arbitrary', which does not tell where each task is; give srun "
                  "--distribution=block");
  EXPECT_MENTIONS(refusal({{"SLURM_DISTRIBUTION", "plane"}}), "which does not tell where each task is");
}

TEST(SlurmStep, RefusesAPlaceThatIsNotItsOwn) {
  EXPECT_EQ(refusal({{"SLURM_NODEID", "0"}}),
            "rank 3 is task 1 of node 0 by SLURM_LOCALID and SLURM_NODEID, and task 1 of node 1 by "
            "SLURM_STEP_TASKS_PER_NODE in 'block' distribution; give srun --distribution=block");
  EXPECT_MENTIONS(refusal({{"SLURM_LOCALID", "0"}}), "rank 3 is task 0 of node 1");
  EXPECT_MENTIONS(refusal({{"SLURM_DISTRIBUTION", "cyclic"}}), "and task 1 of node 0 by");
  EXPECT_EQ(
      refusal({{"SLURMD_NODENAME", "m7"}}),
      "rank 3 is on 'n2' by the step's list of nodes, and on 'm7' by SLURMD_NODENAME: variables of another "
      "job were inherited; unset SLURM_* before this one is started");
}

TEST(SlurmStep, SaysWhatIsMissingOrContradicts) {
  EXPECT_EQ(
      refusal({{"SLURM_PROCID", "-"}}),
      "SLURM_PROCID is not set, though this is a task of a SLURM step; start the program with its whole "
      "environment");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_TASKS_PER_NODE", "-"}}), "SLURM_STEP_TASKS_PER_NODE is not set");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_NUM_TASKS", "-"}, {"SLURM_NTASKS", "-"}}), "SLURM_NTASKS is not set");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_NODELIST", "-"}, {"SLURM_JOB_NODELIST", "-"}}),
                "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set");
  EXPECT_BEGINS(refusal({{"SLURM_PROCID", "three"}}), "the environment variable SLURM_PROCID is 'three'");
  EXPECT_BEGINS(refusal({{"SLURM_PROCID", "-1"}}), "the environment variable SLURM_PROCID is '-1'");
  EXPECT_BEGINS(refusal({{"SLURM_PROCID", "5"}}), "SLURM_PROCID is 5, and the step's 5 tasks are 0 to 4");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_NODELIST", "n[1-"}}), "SLURM_STEP_NODELIST 'n[1-' is no host list");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_NODELIST", "n[1-2]"}}),
                "SLURM_STEP_TASKS_PER_NODE '2(x2),1' is of 3 nodes, and the step has 2 hosts");
  EXPECT_BEGINS(refusal({{"SLURM_STEP_NUM_TASKS", "6"}}),
                "SLURM_STEP_TASKS_PER_NODE '2(x2),1' is of 5 tasks, and the step has 6");
}

TEST(SlurmStep, ReadsCompressedCountsOfTasks) {
  using Counts = std::vector<int>;
  EXPECT_EQ(parseTasksPerNode("2(x3),1", "x"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(parseTasksPerNode("16", "x"), (Counts{16}));
  EXPECT_EQ(parseTasksPerNode("1,2(x2),1", "x"), (Counts{1, 2, 2, 1}));
  for (const char* text :
       {"", "0", "2,", "2(x)", "2(x0)", "2(x3", "2x3", "2(3)", "(x3)", "-1", "2(x3)1", "2(x"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { parseTasksPerNode(text, "x"); }),
                    "should be numbers of tasks such as 2(x3),1")
        << text;
  }
  EXPECT_MENTIONS(errorOf<UsageError>([] { parseTasksPerNode("2147483647(x2147483647)", "x"); }),
                  "more than 65536 tasks");
}

TEST(SlurmJob, WithoutAStepIsToldApart) {
  const Environment batch = {{"SLURM_JOB_ID", "17"},      {"SLURM_JOB_NODELIST", "n[1-3]"},
                             {"SLURM_NTASKS", "6"},       {"SLURM_TASKS_PER_NODE", "2(x3)"},
                             {"SLURM_PROCID", "0"},       {"SLURM_LOCALID", "0"},
                             {"SLURM_RESTART_COUNT", "1"}};
  EXPECT_EQ(findSlurmStep(batch), std::nullopt);
  const SlurmJob job = findSlurmJob(batch).value();
  EXPECT_EQ(job, (SlurmJob{.id = "17", .hosts = {"n1", "n2", "n3"}, .restarts = 1}));
  EXPECT_EQ(noStepNote(job),
            "this process is in SLURM job 17 on n[1-3], but in no step of it, and so a task of its own; "
            "start it by "
            "srun (srun --mpi=pmix cohort ...), which starts one for every task");
  EXPECT_EQ(findSlurmJob({}), std::nullopt);
  EXPECT_EQ(findSlurmStep({}), std::nullopt);
}

}  // namespace
}  // namespace cohort
