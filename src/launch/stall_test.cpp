#include "launch/stall.h"

#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr StallLimits kLimits{.silentSeconds = 3, .stillSeconds = 3};

WorkerView moving(const std::string& name) {
  return {.name = name, .doing = "in forward conv2", .step = 12};
}

WorkerView waiting(const std::string& name, const std::string& what, double stillSeconds) {
  return {.name = name,
          .stillSeconds = stillSeconds,
          .doing = "exchanging",
          .waitsFor = what,
          .waitsForAnother = true,
          .step = 12};
}

std::string sentenceOf(const std::vector<WorkerView>& workers) {
  const std::optional<Stall> stall = findStall(workers, kLimits);
  return stall ? stall->sentence : "";
}

TEST(Stall, IsNoneWhereAllMove) {
  EXPECT_EQ(sentenceOf({}), "");
  EXPECT_EQ(sentenceOf({moving("0"), moving("1")}), "");
}

TEST(Stall, NamesWhoGivesNoSignAndWhoWaitsForIt) {
  std::vector<WorkerView> workers{waiting("0", "worker 1: its part of step 13", 31), moving("1"),
                                  waiting("2", "worker 1: its part of step 13", 31)};
  workers[1].host = "n3";
  workers[1].silentSeconds = 31.2;
  EXPECT_EQ(sentenceOf(workers),
            "worker 1 on n3 gave no sign of life for 31 s: it was in forward conv2 after step 12; worker 0, "
            "worker 2 wait for it");
  EXPECT_EQ(findStall(workers, kLimits)->index, 1U);
}

TEST(Stall, NamesWhoDoesNotMoveThoughItWaitsForNobody) {
  std::vector<WorkerView> workers{moving("0"), waiting("1", "worker 0: the loss of the step", 4)};
  workers[0].stillSeconds = 4;
  EXPECT_EQ(sentenceOf(workers),
            "worker 0 did not move for 4 s: it was in forward conv2 after step 12; worker 1 waits for it");
  workers[0].mayRest = true;
  EXPECT_EQ(sentenceOf(workers), "");
}

TEST(Stall, NamesWhoIsGone) {
  std::vector<WorkerView> workers{waiting("0", "worker 1: its part of step 13", 1), moving("1")};
  workers[1].end = "is gone (process 7 has ended)";
  EXPECT_EQ(sentenceOf(workers),
            "worker 1 is gone (process 7 has ended): it was in forward conv2 after step 12; worker 0 waits "
            "for it");
}

TEST(Stall, LetsTheFirstThatFailedSpeak) {
  std::vector<WorkerView> workers{moving("0"), moving("1"), moving("2")};
  workers[0].end = "is gone (process 7 has ended)";
  workers[1].failure = "the disk is full";
  workers[2].failure = "no more";
  EXPECT_EQ(sentenceOf(workers), "worker 1 failed after step 12: the disk is full");
}

TEST(Stall, NamesWorkersThatWaitForEachOther) {
  const std::vector<WorkerView> workers{waiting("0", "worker 2: its part of step 13", 9),
                                        waiting("1", "worker 2: its part of step 13", 5),
                                        waiting("2", "worker 1: the new weights after step 13", 7)};
  EXPECT_EQ(sentenceOf(workers),
            "all workers wait for others and nothing has moved for 5 s: worker 2 waits for worker 1: the new "
            "weights after step 13; worker 1 waits for worker 2: its part of step 13");
  EXPECT_EQ(findStall(workers, kLimits)->index, 2U);
}

TEST(Stall, FollowsTheWaitsToOneThatNamesNobody) {
  EXPECT_EQ(
      sentenceOf({waiting("0", "worker 1: its part of step 13", 5),
                  waiting("1", "another worker to take what it is sent of step 13", 5)}),
      "all workers wait for others and nothing has moved for 5 s: worker 0 waits for worker 1: its part "
      "of step 13; worker 1 waits for another worker to take what it is sent of step 13");
}

TEST(Stall, IsNoneWhileAnyOfThoseWhoWaitMovesOrRests) {
  std::vector<WorkerView> workers{waiting("0", "worker 1: its part of step 13", 5),
                                  waiting("1", "worker 0: its part of step 13", 2.9)};
  EXPECT_EQ(sentenceOf(workers), "");
  workers[1].stillSeconds = 5;
  EXPECT_NE(sentenceOf(workers), "");
  workers[1].mayRest = true;
  EXPECT_EQ(sentenceOf(workers), "");
}

// They have their own limits for that.
TEST(Stall, IsNoneWhereWorkersWaitForAServer) {
  std::vector<WorkerView> workers{waiting("0", "server 0", 50), waiting("1", "server 0", 50)};
  for (WorkerView& worker : workers) worker.waitsForAnother = false;
  EXPECT_EQ(sentenceOf(workers), "");
}

TEST(Stall, OfOneThatWaitsForItselfIsNone) {
  EXPECT_EQ(sentenceOf({waiting("0", "worker 1: its part of step 13", 50)}), "");
}

}  // namespace
}  // namespace cohort
