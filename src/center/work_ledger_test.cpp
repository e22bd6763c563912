#include "center/work_ledger.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(WorkLedger, GivesStepsInOrderAndReturnedOnesFirst) {
  WorkLedger ledger({}, 4);
  EXPECT_EQ(ledger.take(0), 0);
  EXPECT_EQ(ledger.take(1), 1);
  EXPECT_EQ(ledger.take(0), 2);
  EXPECT_EQ(ledger.held(0), 2);
  EXPECT_EQ(ledger.held(1), 1);
  ledger.giveBack(0);
  EXPECT_EQ(ledger.held(0), 0);
  EXPECT_EQ(ledger.take(2), 0);
  EXPECT_EQ(ledger.take(2), 2);
  EXPECT_EQ(ledger.take(2), 3);
  EXPECT_EQ(ledger.take(2), std::nullopt);
  EXPECT_EQ(ledger.progress(), (Progress{.done = 0, .next = 4, .open = {0, 1, 2, 3}}));
}

TEST(WorkLedger, IsFinishedByTheHolderAloneAndOnce) {
  WorkLedger ledger({}, 1);
  EXPECT_FALSE(ledger.finish(0, 0));
  ledger.take(0);
  EXPECT_FALSE(ledger.finish(1, 0));
  EXPECT_FALSE(ledger.isDone());
  EXPECT_TRUE(ledger.finish(0, 0));
  EXPECT_FALSE(ledger.finish(0, 0));
  EXPECT_TRUE(ledger.isDone());
}

TEST(WorkLedger, IsDoneWhenClosedAndAllIsFinished) {
  WorkLedger ledger({}, 100);
  ledger.take(0);
  ledger.close();
  EXPECT_FALSE(ledger.isDone());
  ledger.giveBack(0);
  EXPECT_FALSE(ledger.isDone());
  EXPECT_EQ(ledger.take(1), 0);
  EXPECT_EQ(ledger.take(1), std::nullopt);
  EXPECT_TRUE(ledger.finish(1, 0));
  EXPECT_TRUE(ledger.isDone());
  EXPECT_EQ(ledger.progress(), (Progress{.done = 1, .next = 1, .open = {}}));
}

}  // namespace
}  // namespace cohort
