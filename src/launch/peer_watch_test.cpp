#include "launch/peer_watch.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

constexpr double kStall = 0.3;

class Peers : public testing::Test {
 protected:
  WorkerStatus waitingStatus(const std::string& name, const std::string& what) {
    return {.name = name,
            .host = "n" + name,
            .doing = "exchanging",
            .waitsFor = what,
            .waitsForAnother = true,
            .stillSeconds = 100,
            .written = ++time_};
  }
  WorkerStatus computing(const std::string& name) {
    return {.name = name, .host = "n" + name, .step = 7, .doing = "in backward fc1", .written = ++time_};
  }
  // For longer than a stall: worker 0 waits, worker 1 says what `other` does.
  std::string judge(const std::function<void()>& other) {
    std::string verdict;
    for (int i = 0; i < 8 && verdict.empty(); ++i) {
      own_ = waitingStatus("0", "worker 1: its part of step 8");
      writeStatus(directory_.path(), own_);
      other();
      verdict = watch_.look(own_, 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return verdict;
  }

  TestDirectory directory_;
  double time_ = -1e6;  // a clock that is wrong
  WorkerStatus own_;
  PeerWatch watch_{directory_.path(), kStall};
};

TEST_F(Peers, NameOneWhoseStatusDoesNotChange) {
  writeStatus(directory_.path(), computing("1"));
  EXPECT_EQ(judge([] {}).substr(0, 40), "worker 1 on n1 gave no sign of life for ");
}

TEST_F(Peers, AreLetAloneWhileTheySayThatTheyMove) {
  EXPECT_EQ(judge([this] { writeStatus(directory_.path(), computing("1")); }), "");
}

TEST_F(Peers, ThatWaitForEachOtherAreNamed) {
  const std::string verdict =
      judge([this] { writeStatus(directory_.path(), waitingStatus("1", "worker 0: the loss of the step")); });
  EXPECT_NE(verdict.find("worker 1 on n1 waits for worker 0: the loss of the step"), std::string::npos)
      << verdict;
}

TEST_F(Peers, AreWaitedForUntilTheyHaveSaidSomething) {
  EXPECT_EQ(judge([] {}), "");
}

TEST_F(Peers, AreNotJudgedByOneThatMovesItself) {
  writeStatus(directory_.path(), computing("1"));
  for (int i = 0; i < 8; ++i) {
    own_ = waitingStatus("0", "worker 1: its part of step 8");
    own_.stillSeconds = 0;
    writeStatus(directory_.path(), own_);
    EXPECT_EQ(watch_.look(own_, 2), "");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace
}  // namespace cohort
