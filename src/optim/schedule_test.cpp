#include "optim/schedule.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

constexpr EpochSize kEpoch{.samples = 100, .batch = 10};  // ten steps

Schedule schedule(std::string_view text) {
  return parseSchedule(text, kEpoch);
}

std::string refusal(std::string_view text) {
  return errorOf<UsageError>([&] { parseSchedule(text, kEpoch); });
}

TEST(Schedule, ConstantIsOneForEver) {
  for (const Step step : {Step{0}, Step{1}, Step{1} << 40}) {
    EXPECT_EQ(schedule("constant").factor(step), 1);
    EXPECT_EQ(Schedule().factor(step), 1);
  }
}

TEST(Schedule, StepsMultiplyAtEachStair) {
  const Schedule stairs = schedule("steps:100,0.5");
  EXPECT_EQ(stairs.factor(0), 1);
  EXPECT_EQ(stairs.factor(99), 1);
  EXPECT_EQ(stairs.factor(100), 0.5);
  EXPECT_EQ(stairs.factor(199), 0.5);
  EXPECT_EQ(stairs.factor(300), 0.125);
}

TEST(Schedule, ExponentialIsAStaircase) {
  const Schedule stairs = schedule("exponential:10,0.9");
  EXPECT_EQ(stairs.factor(9), 1);
  for (const Step step : {10, 55, 1234, 9999}) {
    const Step stairsDone = step / 10;
    EXPECT_NEAR(stairs.factor(step) / std::pow(0.9, static_cast<double>(stairsDone)), 1, 1e-12);
  }
}

TEST(Schedule, PiecewiseChangesAtTheFirstStepOfItsEpoch) {
  const Schedule pieces = schedule("piecewise:82=0.1,123=0.01,300=0.002");
  EXPECT_EQ(pieces.factor(0), 1);
  EXPECT_EQ(pieces.factor(819), 1);
  EXPECT_EQ(pieces.factor(820), 0.1);
  EXPECT_EQ(pieces.factor(1229), 0.1);
  EXPECT_EQ(pieces.factor(1230), 0.01);
  EXPECT_EQ(pieces.factor(2999), 0.01);
  EXPECT_EQ(pieces.factor(3000), 0.002);
  EXPECT_EQ(pieces.factor(1000000), 0.002);
}

TEST(Schedule, PiecewiseEpochsMayBeFractionsAndStepsNeedNotDivideThem) {
  const Schedule pieces = schedule("piecewise:0=0.5,0.3=0.25");
  EXPECT_EQ(pieces.factor(0), 0.5);
  EXPECT_EQ(pieces.factor(2), 0.5);
  EXPECT_EQ(pieces.factor(3), 0.25);

  // An epoch of 45000 / 128 = 351.56 steps: step 351 still begins inside the first one.
  const Schedule uneven = parseSchedule("piecewise:1=0.1", {.samples = 45000, .batch = 128});
  EXPECT_EQ(uneven.factor(351), 1);
  EXPECT_EQ(uneven.factor(352), 0.1);
  // For every tenth of an epoch, rounding must not move the change by a step.
  for (int tenths = 1; tenths < 100; ++tenths) {
    const auto text = "piecewise:" + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "=0.1";
    EXPECT_EQ(schedule(text).factor(tenths - 1), 1) << text;
    EXPECT_EQ(schedule(text).factor(tenths), 0.1) << text;
  }
}

TEST(Schedule, CosineFallsFromOneToItsFinalFactor) {
  const Schedule cosine = schedule("cosine:1000");
  EXPECT_EQ(cosine.factor(0), 1);
  EXPECT_NEAR(cosine.factor(500), 0.5, 1e-15);
  EXPECT_EQ(cosine.factor(1000), 0);
  EXPECT_EQ(cosine.factor(5000), 0);
  for (Step step = 0; step <= 1000; ++step) {
    const double exact = 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 1000));
    ASSERT_NEAR(cosine.factor(step), exact, 5e-16) << step;
  }
  const Schedule raised = schedule("cosine:1000,0.1");
  EXPECT_EQ(raised.factor(0), 1);
  EXPECT_NEAR(raised.factor(500), 0.55, 1e-15);
  EXPECT_EQ(raised.factor(1000), 0.1);
  EXPECT_EQ(raised.factor(1001), 0.1);
}

TEST(Schedule, WarmupRisesLinearlyAndMultipliesTheRest) {
  const Schedule warm = schedule("warmup:4+steps:3,0.5");
  EXPECT_EQ(warm.factor(0), 0.25);
  EXPECT_EQ(warm.factor(1), 0.5);
  EXPECT_EQ(warm.factor(2), 0.75);
  EXPECT_EQ(warm.factor(3), 0.5);
  EXPECT_EQ(warm.factor(4), 0.5);
  EXPECT_EQ(warm.factor(6), 0.25);
  EXPECT_EQ(schedule("warmup:2").factor(0), 0.5);
  EXPECT_EQ(schedule("warmup:2").factor(1), 1);
  EXPECT_EQ(schedule("warmup:2+constant").factor(7), 1);
}

TEST(Schedule, IsAComparableValueThatKeepsItsText) {
  EXPECT_EQ(schedule("cosine:10").text(), "cosine:10");
  EXPECT_EQ(schedule("constant"), Schedule());
  EXPECT_EQ(schedule("piecewise:1=0.5"), schedule("piecewise:1=0.5"));
  EXPECT_NE(schedule("piecewise:1=0.5"), schedule("piecewise:1=0.25"));
  EXPECT_NE(schedule("piecewise:1=0.5"), parseSchedule("piecewise:1=0.5", {.samples = 1000, .batch = 10}));
}

TEST(Schedule, RefusesWithASentenceThatNamesTheKnownForms) {
  for (const char* text : {"", "linear", "linear:5", "constant:1", "steps", "steps:5", "steps:5,0.5,1",
                           "cosine", "cosine:1,2,3", "piecewise:", "piecewise:5", "piecewise:5=1,3=2",
                           "piecewise:1=1,1=2", "warmup:5+", "warmup:5+warmup:5"}) {
    const std::string message = refusal(text);
    EXPECT_MENTIONS(message, "Known schedules are: constant, steps:EVERY,FACTOR") << text;
  }
}

TEST(Schedule, RefusesBadNumbersAndNamesThem) {
  EXPECT_EQ(refusal("steps:0,0.5"),
            "The number of steps in the schedule 'steps:0,0.5' must be a whole number of at least 1, but it "
            "is '0'.");
  for (const char* text : {"steps:1.5,0.5", "steps:5,x", "steps:5,-1", "steps:5,nan", "steps:5,inf",
                           "steps:,1", "cosine:-5", "cosine:10,", "piecewise:a=1", "piecewise:-1=1",
                           "piecewise:1=", "warmup:0+constant", "warmup:x", "steps:99999999999999999999,1"}) {
    const std::string message = refusal(text);
    EXPECT_MENTIONS(message, "must") << text;
    EXPECT_MENTIONS(message, text) << text;
  }
}

}  // namespace
}  // namespace cohort
