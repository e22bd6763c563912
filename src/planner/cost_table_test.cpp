#include "planner/cost_table.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

TEST(CostTable, HasARowForEachNodeAndNumberOfWorkers) {
  CostTable table(0.5);
  table.set("fc", 1, {.forwardSeconds = 1, .backwardSeconds = 2});
  table.set("fc", 4, {.forwardSeconds = 3, .backwardSeconds = 4});
  EXPECT_EQ(table.costOf("fc", 4), (NodeCost{3, 4}));
  EXPECT_EQ(table.costOf("fc", 1), (NodeCost{1, 2}));
  EXPECT_EQ(table.updateSeconds(6), 3);
}

TEST(CostTable, ARoundOverWorkersThatNobodyMeasuredTakesWhatAGrainTakes) {
  CostTable table;
  table.set("fc", 1, {.forwardSeconds = 1, .backwardSeconds = 2});
  EXPECT_EQ(table.costOf("fc", 8), (NodeCost{1, 2}));
}

TEST(CostTable, NamesTheNodeThatItDoesNotKnow) {
  CostTable table;
  table.set("fc", 2, {.forwardSeconds = 1, .backwardSeconds = 2});
  EXPECT_EQ(errorOf<UsageError>([&] { table.costOf("fc", 1); }),
            "the table of costs has no row for fc; measure this network");
}

TEST(CostTable, RefusesTimesThatAreNone) {
  CostTable table;
  EXPECT_MENTIONS(errorOf<UsageError>([&] { table.set("fc", 1, {.forwardSeconds = -1}); }), "cost of fc");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_MENTIONS(errorOf<UsageError>([&] { table.set("fc", 1, {.backwardSeconds = infinity}); }), "inf s");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { table.set("fc", 0, {}); }), "over 0 workers");
}

TEST(CostTable, IsAValue) {
  CostTable table(0.25);
  table.set("fc", 2, {.forwardSeconds = 1, .backwardSeconds = 2});
  CostTable other = table;
  EXPECT_EQ(table, other);
  other.set("fc", 2, {.forwardSeconds = 1, .backwardSeconds = 3});
  EXPECT_FALSE(table == other);
  EXPECT_EQ(toText(table), "fc over 2: forward 1 s, backward 2 s\nupdate: 0.25 s a float\n");
}

}  // namespace
}  // namespace cohort
