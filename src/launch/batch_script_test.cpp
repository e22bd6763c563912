#include "launch/batch_script.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

BatchJob exampleJob() {
  return {.name = "a run",
          .nodes = 3,
          .tasksPerNode = 2,
          .time = "1:00:00",
          .graceSeconds = 90,
          .startFolder = "/home/me",
          .jobDirectory = "/home/me/runs/100% new",
          .command = {"/opt/cohort", "train", "--job-dir", "runs/100% new"}};
}

bool has(const std::string& script, const std::string& line) {
  return script.find("\n" + line + "\n") != std::string::npos;
}

TEST(BatchScript, AsksForTheNodesTasksAndTime) {
  const std::string script = batchScript(exampleJob());
  EXPECT_TRUE(script.starts_with("#!/bin/bash\n"));
  for (const char* line :
       {"#SBATCH --job-name='a run'", "#SBATCH --nodes=3", "#SBATCH --ntasks-per-node=2",
        "#SBATCH --time=1:00:00", "#SBATCH --requeue", "#SBATCH --signal=B:USR1@90",
        "#SBATCH --open-mode=append", "#SBATCH --chdir=/home/me",
        "#SBATCH --output='/home/me/runs/100%% new/slurm/job-%j.txt'", "export COHORT_GRACE_SECONDS=90"}) {
    EXPECT_TRUE(has(script, line)) << line << " is not in\n" << script;
  }
  EXPECT_MENTIONS(script, "/opt/cohort train --job-dir 'runs/100% new' </dev/null &");
  EXPECT_EQ(script.find("cpus-per-task"), std::string::npos);
}

TEST(BatchScript, LeavesTheTimeToThePartition) {
  BatchJob job = exampleJob();
  job.time = "";
  EXPECT_EQ(batchScript(job).find("--time"), std::string::npos);
}

// srun forgets what sbatch was told of cores.
TEST(BatchScript, TellsSrunTheCoresOfATaskToo) {
  BatchJob job = exampleJob();
  job.cpusPerTask = 8;
  const std::string script = batchScript(job);
  EXPECT_TRUE(has(script, "#SBATCH --cpus-per-task=8"));
  EXPECT_MENTIONS(script, "srun -K --mpi=pmix --cpus-per-task=8");
}

TEST(BatchScript, PassesOptionsAndLinesThrough) {
  BatchJob job = exampleJob();
  job.sbatch = {"partition=long", "--gres=gpu:1", "-A me"};
  job.prologue = "module load gcc/12";
  const std::string script = batchScript(job);
  for (const char* line :
       {"#SBATCH --partition=long", "#SBATCH --gres=gpu:1", "#SBATCH -A me", "module load gcc/12"})
    EXPECT_TRUE(has(script, line)) << line;
  EXPECT_LT(script.find("#SBATCH -A me"), script.find("module load"))
      << "sbatch reads up to the first command";
  EXPECT_LT(script.find("module load"), script.find("srun -K"));
}

TEST(BatchScript, RefusesWhatSbatchWouldNotUnderstand) {
  for (const char* time : {"x", "1:2:3:4", "1h", "-1", "1:00:00 "}) {
    BatchJob job = exampleJob();
    job.time = time;
    EXPECT_MENTIONS(errorOf<UsageError>([&] { batchScript(job); }), fmt::format("not '{}'", time));
  }
  for (const char* time : {"90", "90:00", "1:30:00", "2-12", "2-12:30:00"}) {
    BatchJob job = exampleJob();
    job.time = time;
    EXPECT_TRUE(has(batchScript(job), fmt::format("#SBATCH --time={}", time)));
  }
  for (const char* option : {"", "partition=a\n#SBATCH --nodes=9"}) {
    BatchJob job = exampleJob();
    job.sbatch = {option};
    EXPECT_MENTIONS(errorOf<UsageError>([&] { batchScript(job); }), "--sbatch takes one option");
  }
}

// What the script does, with SLURM's commands replaced by scripts that write down how they were called.
class BatchScriptRun : public ::testing::Test {
 protected:
  BatchScriptRun() {
    program("squeue", "echo RUNNING");
    program("scontrol", "exit 0");
    std::filesystem::create_directories(folder_.path() / "bin");
  }

  void program(const std::string& name, const std::string& lines) {
    const std::filesystem::path path = folder_.path() / "bin" / name;
    std::filesystem::create_directories(path.parent_path());
    writeWholeFile(path, fmt::format("#!/bin/bash\necho {} \"$@\" >>{}/calls\n{}\n", name,
                                     folder_.path().string(), lines));
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  // Exit code.
  int run(int maxRestarts = 2) {
    BatchJob job = exampleJob();
    job.jobDirectory = folder_.path() / "job";
    job.maxRestarts = maxRestarts;
    const std::filesystem::path script = folder_.path() / "job.sh";
    writeWholeFile(script, batchScript(job));
    const int status =
        std::system(fmt::format("cd {} && PATH={}/bin:$PATH SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=3 "
                                "timeout 60 bash {} >output 2>&1",
                                folder_.path().string(), folder_.path().string(), script.string())
                        .c_str());
    return WEXITSTATUS(status);
  }

  std::string calls() const { return readWholeFile(folder_.path() / "calls"); }
  std::string output() const { return readWholeFile(folder_.path() / "output"); }
  int starts() const {
    int count = 0;
    const std::string text = calls();
    for (std::size_t at = 0; (at = text.find("srun -K", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  TestDirectory folder_;
};

TEST_F(BatchScriptRun, EndsWithTheRun) {
  program("srun", "exit 0");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(calls().find("requeue"), std::string::npos);
}

TEST_F(BatchScriptRun, StopsAtWrongUsage) {
  program("srun", "exit 2");
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(starts(), 1);
}

TEST_F(BatchScriptRun, QueuesTheJobAgainAfterACheckpoint) {
  program("srun", "exit 75");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(starts(), 1);
  EXPECT_MENTIONS(calls(), "scontrol requeue 17\n");
}

TEST_F(BatchScriptRun, SaysHowToGoOnWhereTheJobMayNotBeQueuedAgain) {
  program("srun", "exit 75");
  program("scontrol", "exit 1");
  EXPECT_EQ(run(), 75);
  EXPECT_MENTIONS(output(), "go on with: sbatch " + (folder_.path() / "job/slurm/job.sh").string());
}

TEST_F(BatchScriptRun, LeavesACancelledJobAlone) {
  program("srun", "exit 75");
  program("squeue", "echo COMPLETING");
  EXPECT_EQ(run(), 75);
  EXPECT_EQ(calls().find("scontrol"), std::string::npos);
}

TEST_F(BatchScriptRun, StartsTasksAgainAndGivesUp) {
  program("srun", "[ \"$1\" != -K ] || exit 137");
  EXPECT_EQ(run(2), 137);
  EXPECT_EQ(starts(), 3);
  EXPECT_MENTIONS(output(), "given up after 2 restarts without a new checkpoint");
}

TEST_F(BatchScriptRun, CountsRestartsFromTheLastCheckpoint) {
  program("srun",
          "[ \"$1\" = -K ] || exit 0\nmkdir -p job/checkpoints\nn=$(ls job/checkpoints | wc -l)\n"
          "[ \"$n\" -lt 4 ] || exit 0\ntouch job/checkpoints/step-$n\nexit 137");
  EXPECT_EQ(run(1), 0);
  EXPECT_EQ(starts(), 5);
}

TEST_F(BatchScriptRun, PassesSignalsOnAsOneThatTasksHear) {
  for (const char* signal : {"USR1", "TERM"}) {
    // The script's own number is that of srun's parent.
    program("srun",
            fmt::format("trap 'exit 75' USR1\ntrap 'exit 1' TERM\nkill -{} $PPID\nfor i in $(seq 200); do "
                        "sleep 0.05; done",
                        signal));
    EXPECT_EQ(run(), 0) << output();
    EXPECT_MENTIONS(calls(), "scontrol requeue 17\n");
    std::filesystem::remove(folder_.path() / "calls");
  }
}

// Where one task of several is killed while it ends, srun does not tell 75.
TEST_F(BatchScriptRun, QueuesAgainWhateverATaskThatWasToldToStopEndsWith) {
  program("srun", "trap 'exit 137' USR1\nkill -USR1 $PPID\nfor i in $(seq 200); do sleep 0.05; done");
  EXPECT_EQ(run(), 0);
  EXPECT_MENTIONS(calls(), "scontrol requeue 17\n");
}

}  // namespace
}  // namespace cohort
