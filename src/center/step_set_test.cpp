#include "center/step_set.h"

#include <algorithm>
#include <limits>
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
  EXPECT_EQ(steps.stretches(), (std::map<Step, Step>{{1, 3}}));
  steps.insert(0);
  EXPECT_EQ(steps.below(), 3);
  EXPECT_TRUE(steps.stretches().empty());
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
    EXPECT_TRUE(steps.stretches().empty());
  }
}

TEST(StepSet, TakesNoMoreMemoryWhileOneStepNeverComes) {
  StepSet steps;
  for (Step step = 1; step <= 1'000'000; ++step) ASSERT_TRUE(steps.insert(step));
  EXPECT_EQ(steps.stretches(), (std::map<Step, Step>{{1, 1'000'001}}));
  EXPECT_FALSE(steps.contains(0));
  EXPECT_TRUE(steps.insert(0));
  EXPECT_EQ(steps.below(), 1'000'001);
  EXPECT_TRUE(steps.stretches().empty());
}

TEST(StepSet, HasNoLastNumber) {
  StepSet steps;
  constexpr Step kLast = std::numeric_limits<Step>::max();
  EXPECT_FALSE(steps.insert(kLast));
  EXPECT_FALSE(steps.contains(kLast));
  EXPECT_TRUE(steps.insert(kLast - 1));
  EXPECT_TRUE(steps.contains(kLast - 1));
}

TEST(StepSet, TakesStretchesThatAreFree) {
  StepSet steps(2);
  EXPECT_TRUE(steps.insert(5, 8));
  EXPECT_TRUE(steps.insert(10, 12));
  for (const auto& [begin, end] : std::vector<std::pair<Step, Step>>{
           {5, 8}, {1, 3}, {4, 6}, {7, 9}, {6, 7}, {4, 20}, {8, 11}, {9, 9}, {9, 8}, {-5, 1}})
    EXPECT_FALSE(steps.insert(begin, end)) << begin << "-" << end;
  EXPECT_EQ(steps.stretches(), (std::map<Step, Step>{{5, 8}, {10, 12}}));
  EXPECT_TRUE(steps.insert(8, 10));
  EXPECT_EQ(steps.stretches(), (std::map<Step, Step>{{5, 12}}));
  EXPECT_TRUE(steps.insert(2, 5));
  EXPECT_EQ(steps.below(), 12);
}

TEST(StepSet, AgreesWithAFlagForEachStep) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    StepSet steps(3);
    std::vector<char> flags(60);
    std::fill_n(flags.begin(), 3, 1);
    for (int i = 0; i < 50; ++i) {
      const auto begin = static_cast<Step>(random() % 59);
      const Step end = begin + 1 + static_cast<Step>(random()) % std::min<Step>(4, 60 - begin);
      const bool isFree = std::find(flags.begin() + begin, flags.begin() + end, 1) == flags.begin() + end;
      ASSERT_EQ(steps.insert(begin, end), isFree);
      if (isFree) std::fill(flags.begin() + begin, flags.begin() + end, 1);
      for (Step step = 0; step < 60; ++step)
        ASSERT_EQ(steps.contains(step), flags[static_cast<std::size_t>(step)] != 0);
      Step count = steps.below();
      for (const auto& [first, last] : steps.stretches()) count += last - first;
      ASSERT_EQ(std::count(flags.begin(), flags.end(), 1), count);
    }
  }
}

}  // namespace
}  // namespace cohort
