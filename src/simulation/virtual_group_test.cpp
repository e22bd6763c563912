// Groups of workers as members of a center: small clusters whose times are computed by hand.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "simulation/center_simulation.h"
#include "simulation/exchange_simulation.h"
#include "simulation/test_bench.h"
#include "sync/exchange_rule.h"

namespace cohort {
namespace {

using Times = std::vector<std::int64_t>;
constexpr VirtualTime kSecond = 1000000000;

ClusterModel secondEach() {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  return model;
}

// 48 bytes take 48 ms, and 10 on their way.
ClusterModel slowCables() {
  ClusterModel model = secondEach();
  model.links = {.latency = 0.010, .bandwidth = 1000};
  return model;
}

struct Layout {
  int groups = 1;
  int groupSize = 2;
  int servers = 1;
  int places = 1;
};

VirtualPlace placeOf(const ClusterModel& cluster, const Layout& layout) {
  return {.cluster = cluster,
          .source = "c.yaml",
          .workers = layout.groups * layout.groupSize,
          .groupSize = layout.groupSize,
          .servers = layout.servers};
}

struct AsyncGroups {
  AsyncGroups(Step target, int grains, const ClusterModel& cluster, const Layout& layout)
      : bench(grains, layout.places),
        run(TestStart::setup({.name = "async", .scaleRate = true}, target, grains), placeOf(cluster, layout),
            TestStart().weights, {}, bench) {}

  Times times() { return runToEnd(run); }
  VirtualOutcome outcome() const { return run.outcome(); }

  InventedBench bench;
  CenterSimulation run;
};

struct ElasticGroups {
  ElasticGroups(Step target, const ClusterModel& cluster, const Layout& layout)
      : bench(kGrains, layout.places),
        run(setup(target), placeOf(cluster, layout), TestStart().weights, makeOwn, bench) {}

  Times times() { return runToEnd(run); }
  VirtualOutcome outcome() const { return run.outcome(); }

  static constexpr int kGrains = 2;
  static CenterSetup setup(Step target) {
    CenterSetup setup = TestStart::setup({.name = "easgd", .hasOwnWeights = true}, target, kGrains);
    setup.optimizer = {};
    return setup;
  }
  static std::unique_ptr<OwnState> makeOwn() {
    static const ParameterLayout kLayout(testParameters());
    ShardOptions options{.grains = kGrains};
    options.optimizer = {.kind = OptimizerKind::Momentum, .learningRate = 0.125};
    return std::make_unique<OwnState>(kLayout, options, [] { return elasticRule(2, 0.25); });
  }

  InventedBench bench;
  ExchangeSimulation run;
};

const VirtualOutcome::Class& classCalled(const VirtualOutcome& outcome, const std::string& name) {
  return *std::ranges::find(outcome.classes, name, &VirtualOutcome::Class::name);
}

TEST(VirtualGroups, AStepTakesAsLongAsItsSlowestWorker) {
  ClusterModel model;
  model.compute = {.secondsPerSample = 1};
  model.stragglers = {{.who = {.worker = 3}, .factor = 4}};
  AsyncGroups simulated(6, 4, model, {.groups = 2});
  // Two of four grains each: 2 s in the first group, 8 s in the other.
  EXPECT_EQ(simulated.times(), (Times{2000, 4000, 6000, 8000, 8000, 16000}));
  const VirtualOutcome outcome = simulated.outcome();
  EXPECT_EQ(outcome.staleness, (std::map<Step, std::int64_t>{{0, 3}, {1, 2}, {3, 1}}));
  const VirtualOutcome::Class& usual = classCalled(outcome, "worker");
  EXPECT_EQ(usual.workers, 3);
  EXPECT_EQ(usual.works, 4 + 4 + 2);
  EXPECT_EQ(usual.computing, (8 + 8 + 4) * kSecond);
  EXPECT_EQ(usual.waiting, 2 * 6 * kSecond) << "worker 2, for the straggler of its group";
  const VirtualOutcome::Class& slow = classCalled(outcome, "worker (straggler)");
  EXPECT_EQ(slow.works, 2);
  EXPECT_EQ(slow.computing, 16 * kSecond);
  EXPECT_EQ(slow.waiting, 0);
}

TEST(VirtualGroups, WorkersHavePartsThatDifferByOneGrainAtMost) {
  ClusterModel model;
  model.compute = {.secondsPerSample = 1};
  AsyncGroups simulated(2, 5, model, {});
  EXPECT_EQ(simulated.times(), (Times{3000, 6000}));
  EXPECT_EQ(simulated.outcome().classes.front().computing, 2 * (3 + 2) * kSecond);
  EXPECT_EQ(simulated.outcome().classes.front().waiting, 2 * kSecond);
}

TEST(VirtualGroups, WeightsGoFromTheFirstToTheOthersAndSumsMeetInARing) {
  AsyncGroups two(2, 2, slowCables(), {});
  // Joined at 10, assigned at 20, asked at 30; the first worker has the weights at 88, the other at 146. Computed at 1146; the ring takes 2 (10 +
  // 24); pushed from 1214 on. The next weights are there at 1330 and 1388.
  EXPECT_EQ(two.times(), (Times{1272, 2514}));
  // Three pulls (the last one's weights are sent, too), two pushes, two orders, and two of a ring's twice the arena.
  EXPECT_EQ(two.outcome().bytes, (3 + 2 + 2 + 2 * 2) * 48U);
  AsyncGroups three(1, 3, slowCables(), {.groupSize = 3});
  // The third worker's weights wait for the first one's cable, and are there at 194; the ring takes 4 (10 + 16).
  EXPECT_EQ(three.times(), (Times{194 + 1000 + 104 + 58}));
  EXPECT_EQ(three.outcome().bytes, (2 + 1 + 2 + 2 * 2) * 48U);
}

TEST(VirtualGroups, OnlyTheFirstWorkersCableLeadsToTheServers) {
  ClusterModel model = slowCables();
  model.hosts = {{.name = "a", .workers = 1, .servers = 1},
                 {.name = "b", .workers = 1, .servers = 0, .latency = 0.020, .bandwidth = 480}};
  AsyncGroups far(1, 2, model, {});
  // Weights and gradients stay on host a. Those for worker 1 take 20 + 100, the ring 2 (20 + 50).
  EXPECT_EQ(far.times(), (Times{120 + 1000 + 140}));
  model.hosts = {{.name = "a", .workers = 2, .servers = 0}, {.name = "b", .workers = 0, .servers = 1}};
  AsyncGroups near(1, 2, model, {});
  EXPECT_EQ(near.times(), (Times{88 + 1000 + 58})) << "nothing inside of a host, as a lone worker";
}

TEST(VirtualGroups, AFailedWorkerTakesItsGroupAway) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 3}, .at = 1.5, .back = 1}};
  AsyncGroups simulated(7, 2, model, {.groups = 2});
  // As two workers, of which one fails.
  EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 3000, 3500, 4000, 4500}));
  const VirtualOutcome outcome = simulated.outcome();
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(outcome.lost, 2) << "both workers' parts";
  EXPECT_EQ(outcome.classes.front().works, 2 * 7) << "every step once";
  EXPECT_EQ(outcome.classes.front().away, kSecond);
  EXPECT_EQ(outcome.classes.front().waiting, kSecond) << "worker 2, for the one that is away";
  EXPECT_EQ(simulated.bench.computed(), 7) << "what is lost is not computed";
}

TEST(VirtualGroups, AreBackWhenAllTheirWorkersAre) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 3}, .at = 1.5, .back = 1},
                    {.who = {.worker = 2}, .at = 2, .back = 1.5}};
  AsyncGroups simulated(7, 2, model, {.groups = 2});
  // The second group has lost its work at 1.5 s and begins at 3.5 s; the first one has taken two steps of it.
  EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 3000, 4000, 4500, 5000}));
  const VirtualOutcome outcome = simulated.outcome();
  EXPECT_EQ(outcome.failures, 2);
  EXPECT_EQ(outcome.lost, 2) << "once";
  EXPECT_EQ(outcome.classes.front().away, 5 * kSecond / 2);
  // Worker 2 from 1.5 s to 2 s, worker 3 from 2.5 s to 3.5 s.
  EXPECT_EQ(outcome.classes.front().waiting, 3 * kSecond / 2);
}

TEST(VirtualGroups, OfWhichOneWorkerStaysAwayDoNotComeBack) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 3}, .at = 1.5}};
  AsyncGroups simulated(6, 2, model, {.groups = 2});
  EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 3000, 4000, 5000}));
  EXPECT_EQ(simulated.outcome().classes.front().away, 7 * kSecond / 2);
  EXPECT_EQ(simulated.outcome().classes.front().waiting, 7 * kSecond / 2);
}

TEST(VirtualGroups, ThatAreNeverWholeAgainEndTheRunWithASentence) {
  ClusterModel model = secondEach();
  // The others go on failing and coming back.
  model.failures = {{.who = {.worker = 1}, .at = 2.5}, {.who = {.worker = 0}, .every = 1.5, .back = 0.1}};
  AsyncGroups gone(100, 2, model, {});
  EXPECT_NE(
      errorOf<UsageError>([&] { gone.times(); }).find("all workers that the rule needs have failed for good"),
      std::string::npos);
  model.failures = {{.who = {}, .every = 0.01, .back = 1}};
  AsyncGroups hardly(100, 8, model, {.groupSize = 8});
  EXPECT_NE(
      errorOf<UsageError>([&] { hardly.times(); }).find("fail so often that no step is finished any more"),
      std::string::npos);
}

// Without delays inside, a group is a worker that computes its whole step.
TEST(VirtualGroups, AreTheSequenceOfAsManyWorkers) {
  for (const int places : {1, 4}) {
    AsyncGroups groups(17, 4, secondEach(), {.groups = 3, .groupSize = 4, .servers = 2, .places = places});
    AsyncGroups workers(17, 4, secondEach(), {.groups = 3, .groupSize = 1});
    EXPECT_EQ(groups.times(), workers.times());
    EXPECT_EQ(weightsAfter(groups.run), weightsAfter(workers.run));
    EXPECT_EQ(groups.outcome().staleness, workers.outcome().staleness);
    ElasticGroups elastic(17, secondEach(), {.groups = 3, .groupSize = 2, .places = places});
    ElasticGroups alone(17, secondEach(), {.groups = 3, .groupSize = 1});
    EXPECT_EQ(elastic.times(), alone.times());
    EXPECT_EQ(weightsAfter(elastic.run), weightsAfter(alone.run));
  }
}

TEST(VirtualGroups, WithWeightsOfTheirOwnPassThemOnAfterExchangesAlone) {
  ElasticGroups simulated(4, slowCables(), {});
  // The first worker has the center's weights at 88, the other at 146. Computed at 1146, met at 1214, heard of at 1224. The next order is a word:
  // begun at 1224, met at 2292; asked at 2302, there at 2360, the change at 2418, known at 2428. What that leaves is there at 2486, and so on.
  EXPECT_EQ(simulated.times(), (Times{1224, 2418, 3564, 4758}));
  EXPECT_EQ(simulated.outcome().bytes, (3 + 2 + 2 + 4 * 2) * 48U);
  ElasticGroups worker(4, secondEach(), {.groupSize = 1});
  worker.times();
  EXPECT_EQ(weightsAfter(simulated.run), weightsAfter(worker.run));
}

TEST(VirtualGroups, WithWeightsOfTheirOwnBeginAgainWithTheCenters) {
  ClusterModel model = secondEach();
  ElasticGroups groups(8, model, {});
  model.failures = {{.who = {.worker = 1}, .at = 3.5, .back = 1}};
  ElasticGroups failing(8, model, {});
  model.failures.front().who.worker = 0;
  ElasticGroups worker(8, model, {.groupSize = 1});
  EXPECT_EQ(failing.times(), worker.times());
  EXPECT_EQ(weightsAfter(failing.run), weightsAfter(worker.run));
  groups.times();
  EXPECT_NE(weightsAfter(failing.run), weightsAfter(groups.run)) << "its weights were gone";
}

TEST(VirtualGroups, AreTheSameForAnyNumberOfPlaces) {
  ClusterModel model = slowCables();
  model.compute.jitter = 0.2;
  model.failures = {{.who = {}, .every = 20, .back = 1}};
  AsyncGroups one(60, 4, model, {.groups = 3, .servers = 2});
  AsyncGroups several(60, 4, model, {.groups = 3, .servers = 2, .places = 7});
  EXPECT_EQ(one.times(), several.times());
  EXPECT_EQ(weightsAfter(one.run), weightsAfter(several.run));
  EXPECT_GT(one.outcome().lost, 0);
}

}  // namespace
}  // namespace cohort
