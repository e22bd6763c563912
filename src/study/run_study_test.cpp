#include "study/run_study.h"

#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "launch/child_process.h"

namespace cohort {
namespace {

using testing::HasSubstr;

int waited(ChildProcess& child) {
  for (;;) {
    if (const auto code = child.exitCode()) return *code;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int shell(const std::string& command, const std::filesystem::path& output) {
  ChildProcess child("/bin/sh", {"sh", "-c", command}, output);
  return waited(child);
}

TEST(ChildProcess, AddsItsOutputToTheFileAndHasAnExitCode) {
  const TestDirectory folder;
  const auto output = folder / "output.txt";
  EXPECT_EQ(shell("echo one; echo two >&2; exit 3", output), 3);
  EXPECT_EQ(shell("cat; echo three", output), 0) << "its input is empty";
  EXPECT_EQ(readWholeFile(output), "one\ntwo\nthree\n");
  EXPECT_EQ(shell("kill -KILL $$", output), 128 + SIGKILL);
}

TEST(ChildProcess, ArgumentsAreNotRead) {
  const TestDirectory folder;
  ChildProcess child("/bin/echo", {"echo", "$HOME", "a b", "*", ""}, folder / "out");
  EXPECT_EQ(waited(child), 0);
  EXPECT_EQ(readWholeFile(folder / "out"), "$HOME a b * \n");
}

TEST(ChildProcess, TakesSignalsThoughItsParentBlocksThem) {
  const TestDirectory folder;
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  {
    ChildProcess child("/bin/sleep", {"sleep", "1000"}, folder / "out");
    EXPECT_FALSE(child.exitCode());
    child.signal(SIGTERM);
    EXPECT_EQ(waited(child), 128 + SIGTERM);
    child.signal(SIGTERM);  // no longer there: nothing happens
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(ChildProcess, HasAGroupOfItsOwnSoThatATerminalsSignalsReachItOnce) {
  const TestDirectory folder;
  EXPECT_EQ(
      shell("read -r pid name state parent group rest < /proc/self/stat; test $group = $pid", folder / "out"),
      0);
}

TEST(ChildProcess, EndsWithItsObject) {
  const TestDirectory folder;
  { const ChildProcess child("/bin/sleep", {"sleep", "1000"}, folder / "out"); }
  EXPECT_THROW(ChildProcess("/bin/true", {"true"}, folder / "no/such/folder"), IoError);
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnExitCode) {
  const TestDirectory folder;
  ChildProcess child("/no/such/program", {"x"}, folder / "out");
  EXPECT_EQ(waited(child), 127);
}

TEST(DoneShare, IsReadFromProgressLines) {
  EXPECT_DOUBLE_EQ(doneShare("step 120/900  loss 0.5"), 120.0 / 900);
  EXPECT_EQ(doneShare("step 900/900"), 1);
  for (const char* line :
       {"", "step", "step 5", "step 5/", "step 5/0", "step 9/5", "step -1/5", "stop 1/2", "step x/2"})
    EXPECT_EQ(doneShare(line), 0) << line;
}

Study parse(const std::string& text) {
  return studyFromYaml(text, "some/s.yaml", builtinNetworks());
}

std::string refusal(const std::filesystem::path& path, const std::string& text) {
  return errorOf<UsageError>([&] { StudyDirectory(path, parse(text)); });
}

TEST(StudyDirectory, IsForOneStudyAtATime) {
  const TestDirectory folder;
  const Study study = parse("vary: {lr: [1, 2]}\n");
  const StudyDirectory first(folder / "a", study);
  EXPECT_THAT(refusal(folder / "a", "vary: {lr: [1, 2]}\n"), HasSubstr("another study is using"));
  EXPECT_EQ(refusal(folder / "b", "vary: {lr: [1, 2]}\n"), "no error");
  EXPECT_EQ(readWholeFile(folder / "a/study.yaml"), study.text);
}

TEST(StudyDirectory, TakesAddedPointsAndNoOtherChange) {
  const TestDirectory folder;
  const auto path = folder / "s";
  EXPECT_EQ(refusal(path, "settings: {seed: 1}\nvary: {lr: [1, 2]}\n"), "no error");
  EXPECT_EQ(refusal(path, "settings: {seed: 1}\nvary: {lr: [1, 3, 2]}\nrepeat: 2\nmeasure: [loss]\n"),
            "no error");
  EXPECT_THAT(refusal(path, "settings: {seed: 1}\nvary: {lr: [1, 3]}\nrepeat: 2\n"),
              HasSubstr("s.yaml: lr=2 (is gone), lr=2_repeat=2 (is gone); only points may be added"));
  EXPECT_THAT(refusal(path, "settings: {seed: 5}\nvary: {lr: [1, 2, 3]}\nrepeat: 2\n"),
              HasSubstr("lr=1 (seed was 1 and is 5)"));
  EXPECT_THAT(refusal(path, "vary: {lr: [1, 2, 3]}\nrepeat: 2\n"), HasSubstr("(seed was 1 and is unset)"));
  EXPECT_THAT(refusal(path, "vary: {lr: [1, 2, 3]}\nrepeat: 2\n"), HasSubstr(" and 3 more;"));
  EXPECT_EQ(refusal(path, "settings: {seed: 1}\nvary: {lr: [1, 2, 3]}\nrepeat: 2\n"), "no error")
      << "nothing was lost";
}

TEST(StudyDirectory, OfSomethingElseIsRefused) {
  const TestDirectory folder;
  writeTestFile(folder / "points.json", "{\"runs\": 5}");
  EXPECT_THAT(refusal(folder.path(), "repeat: 2\n"), HasSubstr("is not what a study wrote"));
  writeTestFile(folder / "file", "");
  EXPECT_THROW(refusal(folder / "file/s", "repeat: 2\n"), IoError);
}

// A program in the place of `cohort`: what it does depends on the run's name in its arguments.
class FakeRuns : public testing::Test, public StudyObserver {
 protected:
  StudyOutcome run(const std::string& text, const std::string& script) {
    writeTestFile(folder_ / "program", "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_ / "program", std::filesystem::perms::owner_all);
    const Study study = parse(text);
    const StudyDirectory directory(folder_ / "s", study);
    return runStudy(study, directory, builtinNetworks(), {.program = folder_ / "program"}, stop_, *this);
  }
  std::string read(const std::string& name) const { return readWholeFile(folder_ / "s" / name); }

  void started(std::size_t count, std::size_t finished) override { before_ = {count, finished}; }
  void runStarted(const Progress&) override {}
  void runWaits(const std::filesystem::path&) override {}
  void progressed(const Progress&) override {
    if (!ready_.empty() && std::filesystem::exists(ready_)) stop_ = true;
  }
  void runEnded(const Progress& progress, int exitCode, const std::string& measured) override {
    ended_.push_back(progress.description);
    codes_.push_back(exitCode);
    measured_ = measured;
  }

  TestDirectory folder_;
  StopFlag stop_ = false;
  std::filesystem::path ready_;  // when this is there, the study is stopped
  std::pair<std::size_t, std::size_t> before_;
  std::vector<std::string> ended_;
  std::vector<int> codes_;
  std::string measured_;
};

// Writes what a finished run leaves; "lr=2" fails.
constexpr const char* kTrain = R"(
job=$3
case $job in *lr=2*) echo working; echo 'cohort: no luck' >&2; exit 4;; esac
echo "network: mnist-cnn" > $job/config.yaml
for flag; do case $flag in --lr=*) echo "lr: ${flag#--lr=}" >> $job/config.yaml;; esac; done
echo '{"accuracy": 0.5, "interrupted": false, "start_step": 0}' > $job/summary.json
)";

TEST_F(FakeRuns, AFailureIsRecordedAndTheOthersGoOn) {
  const StudyOutcome outcome = run("vary: {lr: [1, 2, 3]}\nmeasure: [accuracy]\n", kTrain);
  EXPECT_EQ(ended_, (std::vector<std::string>{"lr=1", "lr=2", "lr=3"}));
  EXPECT_EQ(codes_, (std::vector<int>{0, 4, 0}));
  EXPECT_EQ(measured_, "accuracy 0.5");
  EXPECT_EQ(outcome.finished, 2U);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].run, "lr=2");
  EXPECT_EQ(outcome.failures[0].exitCode, 4);
  EXPECT_EQ(outcome.failures[0].lastLine, "no luck");
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_THAT(read("results.csv"), HasSubstr("\nlr=2,1,2,4,1,"));
  EXPECT_THAT(read("report.html"), HasSubstr("2 of 3 runs finished"));
  EXPECT_THAT(read("runs/lr=2/output.txt"), HasSubstr("$ cohort train --job-dir "));
  EXPECT_THAT(read("runs/lr=2/output.txt"), HasSubstr("\nworking\n"));
}

TEST_F(FakeRuns, OnlyWhatIsNotFinishedIsDoneAgain) {
  run("vary: {lr: [1, 2]}\n", kTrain);
  ended_.clear();
  run("vary: {lr: [1, 2, 3]}\n", kTrain);
  EXPECT_EQ(before_, (std::pair<std::size_t, std::size_t>{3, 1}));
  EXPECT_EQ(ended_, (std::vector<std::string>{"lr=2", "lr=3"}));
  EXPECT_THAT(read("results.csv"), HasSubstr("\nlr=1,1,1,0,1,"));
  EXPECT_THAT(read("results.csv"), HasSubstr("\nlr=2,1,2,4,2,")) << "two attempts";
  ended_.clear();
  writeTestFile(folder_ / "s/runs/lr=1/summary.json", "{\"interrupted\": true}");
  writeTestFile(folder_ / "s/runs/lr=3/config.yaml", "network: mnist-cnn\nlr: 5\n");
  run("vary: {lr: [1, 2, 3]}\n", kTrain);
  EXPECT_EQ(ended_, (std::vector<std::string>{"lr=1", "lr=2", "lr=3"}));
}

TEST_F(FakeRuns, AStopIsPassedOnAndEndsTheStudy) {
  ready_ = folder_ / "ready";
  const StudyOutcome outcome =
      run("vary: {lr: [1, 2]}\n",
          fmt::format("trap 'exit 75' TERM\n: >'{}'\nwhile :; do sleep 0.01; done\n", ready_.string()));
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_TRUE(outcome.failures.empty());
  EXPECT_EQ(codes_, (std::vector<int>{75}));
  EXPECT_THAT(read("results.csv"), HasSubstr("\nlr=1,1,1,75,1,"));
}

}  // namespace
}  // namespace cohort
