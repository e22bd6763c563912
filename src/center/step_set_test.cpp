#include "center/step_set.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(StepSet, TakesEachStepOnce) {
  StepSet steps(3);
  EXPECT_TRUE(steps.contains(2));
  EXPECT_FALSE(steps.contains(3));
  EXPECT_FALSE(steps.insert(0));
  EXPECT_TRUE(steps.insert(5));
  EXPECT_FALSE(steps.insert(5));
  EXPECT_TRUE(steps.contains(5));
  EXPECT_FALSE(steps.contains(4));
  EXPECT_EQ(steps.below(), 3);
}

TEST(StepSet, ClosesUpBehindItsBound) {
  StepSet steps;
  steps.insert(2);
  steps.insert(1);
  EXPECT_EQ(steps.below(), 0);
  EXPECT_EQ(steps.above(), (std::set<Step>{1, 2}));
  steps.insert(0);
  EXPECT_EQ(steps.below(), 3);
  EXPECT_TRUE(steps.above().empty());
}

TEST(StepSet, IsAnIntervalInTheEndWhateverTheOrder) {
  std::vector<Step> order(50);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(order, random);
    StepSet steps;
    for (const Step step : order) EXPECT_TRUE(steps.insert(step));
    EXPECT_EQ(steps.below(), 50);
    EXPECT_TRUE(steps.above().empty());
  }
}

}  // namespace
}  // namespace cohort
