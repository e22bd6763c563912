#include "train/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Statistics, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 6}), 5);
  EXPECT_EQ(median({2, 2, 2, 100}), 2);
}

TEST(Statistics, OfNoStepsAreZero) {
  const StepTimes times;
  EXPECT_EQ(times.steps(), 0u);
  EXPECT_EQ(times.recentSpeed(10, 5), 0);
  const SpeedStatistics s = times.statistics(10);
  EXPECT_EQ(s.imagesPerSecond, 0);
  EXPECT_EQ(s.uncertainty, 0);
  EXPECT_EQ(s.jitter, 0);
  EXPECT_EQ(s.medianStepSeconds, 0);
}

TEST(Statistics, OfOneStepHaveNoSpread) {
  StepTimes times;
  times.add(0.5);
  const SpeedStatistics s = times.statistics(10);
  EXPECT_DOUBLE_EQ(s.imagesPerSecond, 20);
  EXPECT_EQ(s.uncertainty, 0);
  EXPECT_EQ(s.jitter, 0);
  EXPECT_DOUBLE_EQ(s.medianStepSeconds, 0.5);
}

TEST(Statistics, AreThoseComputedByHand) {
  StepTimes times;
  for (const double seconds : {1.0, 0.5, 0.25, 2.0}) times.add(seconds);
  EXPECT_EQ(times.steps(), 4u);
  EXPECT_DOUBLE_EQ(times.totalSeconds(), 3.75);
  // Speeds at batch 10: 10, 20, 40, 5. Mean 18.75; squared deviations 76.5625, 1.5625, 451.5625, 189.0625.
  const SpeedStatistics s = times.statistics(10);
  EXPECT_DOUBLE_EQ(s.imagesPerSecond, 40 / 3.75);
  EXPECT_DOUBLE_EQ(s.uncertainty, std::sqrt(718.75 / 3) / 2);
  // Median speed 15; deviations 5, 5, 25, 10, whose median is 7.5.
  EXPECT_DOUBLE_EQ(s.jitter, 1.4826 * 7.5);
  EXPECT_DOUBLE_EQ(s.medianStepSeconds, 0.75);
}

TEST(Statistics, RecentSpeedCountsTheLastSteps) {
  StepTimes times;
  for (const double seconds : {4.0, 1.0, 3.0}) times.add(seconds);
  EXPECT_DOUBLE_EQ(times.recentSpeed(8, 2), 4);
  EXPECT_DOUBLE_EQ(times.recentSpeed(8, 1), 8.0 / 3);
  EXPECT_DOUBLE_EQ(times.recentSpeed(8, 100), 3) << "no more than there are";
}

TEST(Statistics, OfALongRunKeepItsTotalsAndItsLastSteps) {
  constexpr int kOld = 70'000;
  constexpr int kKept = 65'536;
  StepTimes times;
  for (int i = 0; i < kOld; ++i) times.add(1.0);
  for (int i = 0; i < kKept; ++i) times.add(0.5);
  EXPECT_EQ(times.steps(), static_cast<std::size_t>(kOld + kKept));
  const SpeedStatistics s = times.statistics(1);
  EXPECT_DOUBLE_EQ(s.medianStepSeconds, 0.5);
  EXPECT_EQ(s.jitter, 0);
  EXPECT_DOUBLE_EQ(s.imagesPerSecond, (kOld + kKept) / (kOld + 0.5 * kKept));
  times.add(0.25);
  EXPECT_DOUBLE_EQ(times.recentSpeed(1, 1), 4);
}

}  // namespace
}  // namespace cohort
