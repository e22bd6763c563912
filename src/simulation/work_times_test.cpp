#include "simulation/work_times.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/philox.h"

namespace cohort {
namespace {

using Distribution = ComputeModel::Distribution;
constexpr VirtualTime kSecond = 1000000000;

VirtualTime takes(const ClusterModel& model, int workers, int worker, const WorkTimes::Grains& grains,
                  VirtualTime start = 0) {
  const ClusterPlaces places = placeOn(model, workers, 0, "c.yaml");
  return WorkTimes(model, places, 1, "c.yaml").compute(worker, 0, grains, start);
}

TEST(WorkTimes, AStepIsItsSamplesAndWhatItCostsAnyway) {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0.5, .secondsPerStep = 0.25};
  EXPECT_EQ(takes(model, 2, 1, {.count = 3, .samples = 2}), 3.25 * kSecond);
  EXPECT_EQ(takes({}, 1, 0, {.count = 1, .samples = 10}), kSecond / 100)
      << "a millisecond a sample by default";
}

TEST(WorkTimes, CoresComputeGrainsAtOnceAndSpeedDivides) {
  ClusterModel model{.hosts = {{.name = "a", .cores = 4, .workers = 2},
                               {.name = "b", .cores = 1, .speed = 2, .workers = 2}}};
  model.compute.secondsPerSample = 1;
  EXPECT_EQ(takes(model, 4, 0, {.count = 5}), 3 * kSecond) << "two cores of its own: 2, 2 and 1 grains";
  EXPECT_EQ(takes(model, 4, 3, {.count = 5}), 5 * kSecond) << "twice as fast, and half a core";
}

TEST(WorkTimes, AStragglerIsSlowInItsTimeAlone) {
  ClusterModel model{.hosts = {{.name = "n", .count = 2}}};
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  model.stragglers = {{.who = {.worker = 0}, .factor = 4, .from = 10, .until = 20},
                      {.who = {.worker = {}, .host = "n1"}, .factor = 2}};
  EXPECT_EQ(takes(model, 3, 0, {}, 10 * kSecond - 1), kSecond);
  EXPECT_EQ(takes(model, 3, 0, {}, 10 * kSecond), 4 * kSecond);
  EXPECT_EQ(takes(model, 3, 0, {}, 20 * kSecond), kSecond);
  EXPECT_EQ(takes(model, 3, 1, {}), kSecond);
  EXPECT_EQ(takes(model, 3, 2, {}), 2 * kSecond);
}

class JitterOf : public testing::TestWithParam<std::pair<Distribution, double>> {};
INSTANTIATE_TEST_SUITE_P(Distributions, JitterOf,
                         testing::Values(std::pair{Distribution::Normal, 0.2},
                                         std::pair{Distribution::Uniform, 0.57},
                                         std::pair{Distribution::Exponential, 1.0}),
                         [](const auto& instance) {
                           return std::string(distributionName(instance.param.first));
                         });

TEST_P(JitterOf, HasMeanOneAndItsDeviationAndIsNeverNegative) {
  const auto [distribution, jitter] = GetParam();
  EXPECT_EQ(mostJitter(distribution), jitter);
  const ComputeModel model{.jitter = jitter, .distribution = distribution};
  constexpr int kDraws = 40000;
  double sum = 0;
  double squares = 0;
  for (Step step = 0; step < kDraws; ++step) {
    const double factor = jitterFactor(model, 7, 3, step);
    ASSERT_GE(factor, 0);
    sum += factor;
    squares += (factor - 1) * (factor - 1);
  }
  EXPECT_NEAR(sum / kDraws, 1, 0.02);
  EXPECT_NEAR(std::sqrt(squares / kDraws), jitter, 0.02 * jitter + 0.005);
}

TEST(Jitter, IsAFunctionOfSeedWorkerAndStep) {
  const ComputeModel model{.jitter = 0.1};
  const double one = jitterFactor(model, 1, 2, 3);
  EXPECT_EQ(jitterFactor(model, 1, 2, 3), one);
  EXPECT_NE(jitterFactor(model, 2, 2, 3), one);
  EXPECT_NE(jitterFactor(model, 1, 3, 3), one);
  EXPECT_NE(jitterFactor(model, 1, 2, 4), one);
}

TEST(ExponentialNumber, IsTheLogarithmOfAUniformOne) {
  for (const double u : {0.0, 1e-9, 0.25, 0.5, 0.75, 0.999, 1 - 1e-12}) {
    const auto bits = static_cast<std::uint64_t>(u * 0x1p53) << 11;
    EXPECT_NEAR(exponentialNumber(bits), -std::log1p(-u), 1e-12 * (1 - std::log1p(-u))) << u;
  }
}

TEST(Outages, ComeOnceOrAgainAndAgain) {
  ClusterModel model{.hosts = {{.name = "n", .count = 2}}};
  model.failures = {{.who = {.worker = 0}, .at = 5, .back = 2},
                    {.who = {.worker = {}, .host = "n1"}, .at = 7},
                    {.who = {.worker = 1}, .every = 100, .back = 3}};
  const ClusterPlaces places = placeOn(model, 3, 0, "c.yaml");
  const WorkTimes times(model, places, 1, "c.yaml");
  const auto first = times.nextOutage(0, 0, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 5 * kSecond);
  EXPECT_EQ(first->end, 7 * kSecond);
  EXPECT_FALSE(times.nextOutage(0, first->end, 1));
  EXPECT_EQ(times.nextOutage(2, 0, 0)->end, kNever);
  double sum = 0;
  VirtualTime now = 0;
  constexpr int kOutages = 2000;
  for (int i = 0; i < kOutages; ++i) {
    const auto next = times.nextOutage(1, now, i);
    sum += secondsOf(next->begin - now);
    EXPECT_EQ(next->end - next->begin, 3 * kSecond);
    now = next->end;
  }
  EXPECT_NEAR(sum / kOutages, 100, 7);
}

}  // namespace
}  // namespace cohort
