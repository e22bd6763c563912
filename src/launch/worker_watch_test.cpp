#include "launch/worker_watch.h"

#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

TEST(StallLimits, LeaveAWorkerTimeToWaitForAServer) {
  EXPECT_GT(stallLimits(3, 60).stillSeconds, 60);
  EXPECT_EQ(stallLimits(3, 60).silentSeconds, 3);
  EXPECT_EQ(stallLimits(300, 60).stillSeconds, 300);
}

class NoScreen : public Screen {
 public:
  void print(const std::string&) override {}
  void detail(const std::string&) override {}
  void result(const std::string&) override {}
  void warn(const std::string&) override {}
  void progress(const ProgressReport&) override {}
  void endProgress() override {}
};

// Two workers of this process, as their supervisor hears them.
class Watch : public testing::Test {
 protected:
  Watch() { watch_.begin(2); }

  void say(int worker, std::uint64_t beats, const std::string& waitsFor = "", bool isForServer = false) {
    WorkerMessage message{.worker = worker};
    message.process = ::getpid();
    message.step = 12;
    message.beats = beats;
    message.doing = "exchanging";
    message.waitsFor = waitsFor;
    message.waitsForAnother = !waitsFor.empty() && !isForServer;
    const std::string line = toLine(message);
    ASSERT_EQ(::write(fifo_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
    watch_.listen(std::chrono::milliseconds(0));
  }
  // While both say the same for longer than they may stand still.
  std::string afterSaying(const std::string& first, const std::string& second, bool isForServer = false) {
    for (int i = 0; i < 8; ++i) {
      say(0, 1, first, isForServer);
      say(1, 1, second, isForServer);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const auto stalled = watch_.stalled();
    return stalled ? stalled->sentence : "";
  }

  TestDirectory directory_;
  NoScreen screen_;
  WorkerWatch watch_{directory_ / "supervisor", {.silentSeconds = 60, .stillSeconds = 0.3}, screen_};
  Descriptor fifo_{::open((directory_ / "supervisor").c_str(), O_WRONLY | O_CLOEXEC)};
};

TEST_F(Watch, FindsWorkersThatWaitForEachOther) {
  EXPECT_EQ(afterSaying("worker 1: its part of step 13", "worker 0: its part of step 13"),
            "all workers wait for others and nothing has moved for 0.3 s: worker 0 waits for worker 1: its "
            "part of step 13; worker 1 waits for worker 0: its part of step 13");
}

TEST_F(Watch, LetsWorkersWaitForOneThatComputes) {
  EXPECT_EQ(afterSaying("worker 1: its part of step 13", ""),
            "worker 1 did not move for 0.3 s: it was exchanging after step 12; worker 0 waits for it");
  say(1, 2);
  EXPECT_FALSE(watch_.stalled());
}

TEST_F(Watch, LetsWorkersWaitForEachOtherWhileMessagesCome) {
  afterSaying("worker 1: its part of step 13", "worker 0: its part of step 13");
  say(1, 2, "worker 0: its part of step 13");
  EXPECT_FALSE(watch_.stalled());
}

TEST_F(Watch, LetsWorkersWaitForAServer) {
  EXPECT_EQ(afterSaying("server 0", "server 0", true), "");
}

// Those of one group wait for each other while another group goes on.
TEST_F(Watch, JudgesEachGroupByItself) {
  watch_.begin(4, 0, 2);
  for (int i = 0; i < 8; ++i) {
    say(0, static_cast<std::uint64_t>(i));
    say(1, 1, "worker 0: what the center wants next");
    say(2, 1, "worker 3: its part of step 13");
    say(3, 1, "worker 2: its part of step 13");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto stalled = watch_.stalled();
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->worker, 2);
  EXPECT_EQ(stalled->sentence,
            "all workers wait for others and nothing has moved for 0.3 s: worker 2 waits for worker 3: its "
            "part of step 13; worker 3 waits for worker 2: its part of step 13");
}

TEST_F(Watch, KnowsWhatEachWorkerEndedWith) {
  WorkerMessage message{.kind = WorkerMessage::Kind::Finished, .worker = 1};
  message.exitCode = 75;
  const std::string line = toLine(message);
  ASSERT_EQ(::write(fifo_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  watch_.listen(std::chrono::milliseconds(0));
  EXPECT_EQ(watch_.finished(1), 75);
  EXPECT_FALSE(watch_.finished(0));
  watch_.restart(1);
  EXPECT_FALSE(watch_.finished(1));
}

// It may be the one that all wait for.
TEST_F(Watch, LetsWorkersWaitForOneThatHasNotSpokenYet) {
  for (int i = 0; i < 8; ++i) {
    say(0, 1, "worker 1: the job directory's name");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_FALSE(watch_.stalled());
}

}  // namespace
}  // namespace cohort
