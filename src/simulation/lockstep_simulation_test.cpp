// Rules without a center, with times computed by hand.
#include "simulation/lockstep_simulation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "simulation/test_bench.h"

namespace cohort {
namespace {

using Times = std::vector<std::int64_t>;
constexpr VirtualTime kSecond = 1000000000;

ClusterModel stragglerOf(int worker, double factor) {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  model.stragglers = {{.who = {.worker = worker}, .factor = factor}};
  return model;
}

struct Simulated {
  Simulated(const ClusterModel& cluster, int workers, int grains, Step target,
            const std::optional<OwnWeightsOptions>& own = {}, int places = 1)
      : layout(testParameters()),
        bench(grains, places),
        run(rule(workers, grains, own), {.cluster = cluster, .source = "c.yaml", .workers = workers}, grains,
            target, kTestFloats * sizeof(float), bench) {}

  std::unique_ptr<LockstepRule> rule(int workers, int grains, const std::optional<OwnWeightsOptions>& own) {
    const VirtualStart start{
        .layout = layout,
        .options = {.optimizer = {.kind = OptimizerKind::Sgd, .learningRate = 0.125}, .grains = grains},
        .weights = weights,
        .slots = {}};
    return own ? ownWeights(start, *own) : sharedWeights(start, workers);
  }
  Times times() { return runToEnd(run); }

  std::vector<float> weights = TestStart().weights;
  ParameterLayout layout;
  InventedBench bench;
  LockstepSimulation run;
};

TEST(VirtualAllReduce, TakesTheSlowestWorkerAndARing) {
  ClusterModel model = stragglerOf(2, 4);
  model.links = {.latency = 0.010, .bandwidth = 1000};
  Simulated simulated(model, 3, 3, 3);
  // 48 bytes in thirds: 2 (3 - 1) times 10 ms and 16.
  EXPECT_EQ(simulated.times(), (Times{4104, 8208, 12312}));
  const VirtualOutcome outcome = simulated.run.outcome();
  EXPECT_EQ(outcome.bytes, 3 * 4 * 48u);
  EXPECT_EQ(outcome.classes[0].name, "worker");
  EXPECT_EQ(outcome.classes[0].waiting, 2 * 3 * 3 * kSecond);
  EXPECT_EQ(outcome.classes[1].waiting, 0);
}

TEST(VirtualAllReduce, NeighboursOnAHostDoNotUseItsCable) {
  ClusterModel model = stragglerOf(0, 1);
  model.links = {.latency = 0.010, .bandwidth = 1000};
  model.sameHost = {.latency = 0.001};
  model.hosts = {{.name = "n"}};
  Simulated one(model, 2, 2, 1);
  EXPECT_EQ(one.times(), (Times{1002}));
  model.hosts = {{.name = "n", .count = 2, .bandwidth = 480}};
  Simulated two(model, 4, 4, 1);
  EXPECT_EQ(two.times(), (Times{1000 + 6 * (10 + 25)}));
}

TEST(VirtualAllReduce, HasTheSameBitsForAnyWorkersAndPlaces) {
  std::vector<std::vector<float>> weights;
  for (const int workers : {1, 2, 3, 6}) {
    Simulated simulated(stragglerOf(0, 4), workers, 6, 5, {}, workers);
    simulated.times();
    weights.push_back(weightsAfter(simulated.run));
    EXPECT_EQ(weights.back(), weights.front()) << workers;
  }
}

TEST(VirtualLocalSteps, WorkersMeetAtAveragings) {
  Simulated simulated(stragglerOf(1, 2), 2, 2, 5, OwnWeightsOptions{.workers = 2, .every = 2, .last = 4});
  EXPECT_EQ(simulated.times(), (Times{2000, 4000, 6000, 8000, 10000}));
  EXPECT_EQ(simulated.run.outcome().classes[0].waiting, 5 * kSecond);
}

// Two workers of a grain each, two steps, by hand.
TEST(VirtualLocalSteps, AverageTheChanges) {
  for (const double momentum : {0.0, 0.5}) {
    Simulated simulated(
        stragglerOf(1, 2), 2, 2, 2,
        OwnWeightsOptions{.workers = 2, .every = 2, .last = 1, .outerRate = 0.5, .outerMomentum = momentum});
    simulated.times();
    std::vector<float> expected(kTestFloats);
    for (std::size_t i = 0; i < kTestFloats; ++i) {
      const bool isStatistic = i >= 4 && i < 7;
      float changes = 0;
      for (const int worker : {0, 1}) {
        float weight = 1;
        for (Step step = 0; step < 2; ++step) {
          const float gradient = inventedGradient(i, step, worker, weight);
          weight = isStatistic ? weight + 0.25F * (gradient - weight) : weight - 0.125F * 2 * gradient;
        }
        changes += weight - 1;
      }
      const float change = changes / 2;
      const auto factor = static_cast<float>(momentum);
      expected[i] = isStatistic ? 1 + change : 1 + 0.5F * (change + factor * change);
    }
    const std::vector<float> weights = weightsAfter(simulated.run);
    for (std::size_t i = 0; i < kTestFloats; ++i) EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;
  }
}

TEST(VirtualLockstep, AWorkerThatFailsComputesItsStepAgainAndAllWait) {
  ClusterModel model = stragglerOf(0, 1);
  model.failures = {{.who = {.worker = 1}, .at = 0.5, .back = 2}};
  Simulated simulated(model, 2, 2, 2);
  EXPECT_EQ(simulated.times(), (Times{3500, 4500}));
  const VirtualOutcome outcome = simulated.run.outcome();
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(outcome.lost, 1);
  EXPECT_EQ(outcome.classes.back().away, 2 * kSecond);
}

TEST(VirtualLockstep, AWorkerThatFailsWhileItWaitsIsWaitedFor) {
  ClusterModel model = stragglerOf(1, 4);
  model.failures = {{.who = {.worker = 0}, .at = 2, .back = 3}};
  Simulated simulated(model, 2, 2, 1);
  EXPECT_EQ(simulated.times(), (Times{5000}));
}

TEST(VirtualLockstep, SaysWhoNeverComesBack) {
  ClusterModel model = stragglerOf(0, 1);
  model.failures = {{.who = {.worker = 1}, .at = 2.5}};
  Simulated simulated(model, 2, 2, 9);
  EXPECT_EQ(errorOf<UsageError>([&] { simulated.times(); }),
            "worker 1 fails at 2.500 virtual seconds and never comes back, and without a center all need "
            "every worker; "
            "give its failure a 'back' in c.yaml, or use --servers 1");
}

TEST(VirtualLockstep, SaysThatFailuresLeaveNoTime) {
  ClusterModel model = stragglerOf(0, 1);
  model.failures = {{.who = {}, .every = 0.001, .back = 0.001}};
  Simulated simulated(model, 2, 2, 9);
  EXPECT_EQ(errorOf<UsageError>([&] { simulated.times(); }),
            "worker 0 and others fail so often that no step is finished any more: 2001 works in a row were "
            "lost or never begun; give 'failures' in "
            "c.yaml a larger 'mean-time-between'");
}

TEST(VirtualLockstep, HaltsAtTheNextMeeting) {
  Simulated simulated(stragglerOf(0, 1), 2, 2, 100, OwnWeightsOptions{.workers = 2, .every = 4, .last = 99});
  simulated.run.advance();
  simulated.run.halt();
  EXPECT_EQ(simulated.times().size(), 3u);
}

}  // namespace
}  // namespace cohort
