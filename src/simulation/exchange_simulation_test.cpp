// Small clusters, against sequences of steps and exchanges that are driven by hand.
#include "simulation/exchange_simulation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "simulation/test_bench.h"
#include "sync/exchange_rule.h"

namespace cohort {
namespace {

using Times = std::vector<std::int64_t>;

// A second for every work, and a network that costs nothing.
ClusterModel secondEach() {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  return model;
}

CenterSetup setupOf(Step target, int grains) {
  CenterSetup setup = TestStart::setup({.name = "easgd", .hasOwnWeights = true}, target, grains);
  setup.optimizer = {};
  return setup;
}

const ParameterLayout& layout() {
  static const ParameterLayout kLayout(testParameters());
  return kLayout;
}

std::unique_ptr<OwnState> makeOwn(Step every, double alpha, int grains) {
  ShardOptions options{.grains = grains};
  options.optimizer = {.kind = OptimizerKind::Momentum, .learningRate = 0.125};
  return std::make_unique<OwnState>(layout(), options, [=] { return elasticRule(every, alpha); });
}

struct Elastic {
  Step target = 8;
  int grains = 2;
  Step every = 2;
  double alpha = 0.25;
};

struct Simulated {
  Simulated(const Elastic& elastic, const ClusterModel& cluster, int workers, int servers = 1, int places = 1)
      : bench(elastic.grains, places),
        run(
            setupOf(elastic.target, elastic.grains),
            {.cluster = cluster, .source = "c.yaml", .workers = workers, .servers = servers},
            TestStart().weights, [elastic] { return makeOwn(elastic.every, elastic.alpha, elastic.grains); },
            bench) {}

  Times times() { return runToEnd(run); }

  InventedBench bench;
  ExchangeSimulation run;
};

// A worker, driven by hand.
struct ByHand {
  explicit ByHand(const Elastic& elastic) : own(makeOwn(elastic.every, elastic.alpha, elastic.grains)) {}

  void begin(const std::vector<float>& center) {
    std::ranges::copy(center, own->weights().begin());
    own->begin();
  }
  // What is added to the center's weights after this step.
  std::vector<float> step(Step step, int grains, const std::vector<float>& center) {
    InventedBench bench(grains);
    bool isDue = false;
    const Workbench::Task task{.work = {step, {0, grains}},
                               .isAlone = true,
                               .weights = {own->weights()},
                               .done = [&](const Workbench::Result& result) {
                                 isDue = own->step(step, result.gradients.front().sums, 1);
                               }};
    bench.compute(std::span(&task, 1));
    std::vector<float> change(kTestFloats);
    if (isDue) own->exchange(center, change);
    return change;
  }
  void stepAndExchange(Step at, int grains, std::vector<float>& center) {
    const std::vector<float> change = step(at, grains, center);
    for (std::size_t i = 0; i < center.size(); ++i) center[i] += change[i];
  }

  std::unique_ptr<OwnState> own;
};

TEST(VirtualExchange, IsTheSequenceOfStepsAndExchanges) {
  const Elastic elastic;
  for (const int servers : {1, 3}) {
    for (const int places : {1, 4}) {
      Simulated simulated(elastic, secondEach(), 2, servers, places);
      EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 2000, 3000, 3000, 4000, 4000}));
      // Steps are given out one ahead: 0 and 1 to the first worker when it joins, 2 and 3 to the second.
      std::vector<float> center = TestStart().weights;
      std::vector<ByHand> workers;
      for (int i = 0; i < 2; ++i) workers.emplace_back(elastic).begin(center);
      const std::vector<std::vector<Step>> given{{0, 1, 4, 6}, {2, 3, 5, 7}};
      for (std::size_t round = 0; round < 4; ++round) {
        // Both see the center before either has changed it: what is asked for at once is answered at once.
        const std::vector<float> before = center;
        for (std::size_t w = 0; w < 2; ++w) {
          const std::vector<float> change = workers[w].step(given[w][round], elastic.grains, before);
          for (std::size_t i = 0; i < kTestFloats; ++i) center[i] += change[i];
        }
      }
      EXPECT_EQ(weightsAfter(simulated.run), center);
    }
  }
}

TEST(VirtualExchange, OfALoneWorkerIsExactForAnyClusterAndServers) {
  const Elastic elastic{.target = 11, .grains = 4, .every = 3, .alpha = 0.5};
  std::vector<float> center = TestStart().weights;
  ByHand worker(elastic);
  worker.begin(center);
  for (Step step = 0; step < elastic.target; ++step) worker.stepAndExchange(step, elastic.grains, center);
  ClusterModel slow = secondEach();
  slow.links = {.latency = 0.1, .bandwidth = 100};
  slow.compute.jitter = 0.3;
  for (const ClusterModel& cluster : {secondEach(), slow}) {
    for (const int servers : {1, 2}) {
      Simulated simulated(elastic, cluster, 1, servers);
      simulated.times();
      EXPECT_EQ(weightsAfter(simulated.run), center);
      EXPECT_EQ(simulated.run.outcome().staleness, (std::map<Step, std::int64_t>{{0, 3}}));
    }
  }
}

TEST(VirtualExchange, WithoutASpringLeavesTheCenterAlone) {
  Simulated simulated({.target = 20, .every = 1, .alpha = 0}, secondEach(), 3);
  simulated.times();
  EXPECT_EQ(weightsAfter(simulated.run), TestStart().weights);
}

TEST(VirtualExchange, CostsTheNetworkAndStepsBetweenCostNothing) {
  ClusterModel model = secondEach();
  model.links = {.latency = 0.010, .bandwidth = 1000};  // 48 bytes take 48 ms
  Simulated simulated({.target = 4, .grains = 1, .every = 2, .alpha = 0.5}, model, 1);
  // Joined at 10, assigned at 20, asked at 30, begun at 88. The first step is done at 1088, and heard of at 1098; the second at 2088: asked at
  // 2098, there at 2156, and the change at 2214, which is heard of at once. The worker knows at 2224.
  EXPECT_EQ(simulated.times(), (Times{1098, 2214, 3234, 4350}));
  EXPECT_EQ(simulated.run.outcome().bytes, (1 + 2 * 2) * 48u);
}

TEST(VirtualExchange, TheFirstServerHearsWhenAllHaveTheChange) {
  ClusterModel model = secondEach();
  model.links.latency = 0.010;
  const Elastic elastic{.target = 2, .grains = 1, .every = 1};
  Simulated one(elastic, model, 1, 1);
  Simulated two(elastic, model, 1, 2);
  EXPECT_EQ(one.times(), (Times{1070, 2110}));
  EXPECT_EQ(two.times(), (Times{1090, 2130}));
  EXPECT_EQ(weightsAfter(two.run), weightsAfter(one.run));
}

TEST(VirtualExchange, WhoComesBackBeginsWithTheCentersWeights) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 0}, .at = 3.5, .back = 1}};
  const Elastic elastic{.target = 8, .grains = 1, .every = 2};
  Simulated simulated(elastic, model, 1);
  // Its fourth step is lost with the third, which it had not exchanged; it makes the lost one again, as its first.
  EXPECT_EQ(simulated.times(), (Times{1000, 2000, 3000, 5500, 6500, 7500, 8500, 9500}));
  std::vector<float> center = TestStart().weights;
  ByHand worker(elastic);
  worker.begin(center);
  for (Step step = 0; step < 3; ++step) worker.stepAndExchange(step, 1, center);
  worker.begin(center);
  for (Step step = 3; step < 8; ++step) worker.stepAndExchange(step, 1, center);
  EXPECT_EQ(weightsAfter(simulated.run), center);
  const VirtualOutcome outcome = simulated.run.outcome();
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(outcome.lost, 1);
}

// Between the rule's wish and its push nothing has left the worker; what it pushes comes, though it fails meanwhile.
TEST(VirtualExchange, IsLostBeforeItIsSentAndComesAfter) {
  ClusterModel model = secondEach();
  model.links = {.latency = 0, .bandwidth = 48};  // a second for the arena
  const Elastic elastic{.target = 2, .grains = 1, .every = 1};
  for (const auto& [at, lost] : {std::pair{2.5, 1}, std::pair{3.5, 0}}) {
    // It begins at 1 s, has computed at 2 s, has pulled at 3 s and pushed at 4 s.
    model.failures = {{.who = {.worker = 0}, .at = at, .back = 10}};
    Simulated simulated(elastic, model, 1);
    simulated.times();
    EXPECT_EQ(simulated.run.outcome().lost, lost);
    EXPECT_EQ(simulated.run.outcome().staleness, (std::map<Step, std::int64_t>{{0, 2}}));
  }
}

TEST(VirtualExchange, ThatNobodyIsLeftForEndsWithASentence) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {}, .at = 2.5}};
  Simulated simulated({.target = 100}, model, 2);
  EXPECT_THROW(simulated.times(), UsageError);
}

}  // namespace
}  // namespace cohort
