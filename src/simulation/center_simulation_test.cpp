// Small clusters whose times are computed by hand.
#include "simulation/center_simulation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "simulation/test_bench.h"

namespace cohort {
namespace {

using Times = std::vector<std::int64_t>;
using Histogram = std::map<Step, std::int64_t>;
constexpr VirtualTime kSecond = 1000000000;

// A second for every work, and a network that costs nothing.
ClusterModel secondEach() {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  return model;
}

ClusterModel withStraggler(int worker, double factor = 4) {
  ClusterModel model = secondEach();
  model.stragglers = {{.who = {.worker = worker}, .factor = factor}};
  return model;
}

struct Simulated {
  Simulated(const CenterRule& rule, Step target, int grains, const ClusterModel& cluster, int workers,
            int servers = 1, int places = 1)
      : bench(grains, places),
        run(TestStart::setup(rule, target, grains),
            {.cluster = cluster, .source = "c.yaml", .workers = workers, .servers = servers},
            TestStart().weights, {}, bench) {}

  Times times() { return runToEnd(run); }

  InventedBench bench;
  CenterSimulation run;
};

const VirtualOutcome::Class& classCalled(const VirtualOutcome& outcome, const std::string& name) {
  return *std::ranges::find(outcome.classes, name, &VirtualOutcome::Class::name);
}

TEST(VirtualAsync, AStragglersGradientIsAsOldAsWhatOthersDidMeanwhile) {
  Simulated simulated({.name = "async"}, 9, 1, withStraggler(2), 3);
  EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 2000, 3000, 3000, 4000, 4000, 8000}));
  const VirtualOutcome outcome = simulated.run.outcome();
  // Workers 0 and 1 in turn: 0 1, 1 1, 1 1. At 4 s the straggler comes first (it began first), with the weights of
  // the beginning, and then worker 0, before whom worker 1 and the straggler came. The straggler's second, at 8 s, has only that before it.
  EXPECT_EQ(outcome.staleness, (Histogram{{0, 1}, {1, 6}, {2, 1}, {6, 1}}));
  EXPECT_EQ(classCalled(outcome, "worker").works, 7);
  EXPECT_EQ(classCalled(outcome, "worker (straggler)").works, 2);
  EXPECT_EQ(classCalled(outcome, "worker (straggler)").computing, 8 * kSecond);
  EXPECT_EQ(classCalled(outcome, "worker").waiting, 0);
}

TEST(VirtualSsp, TheFastWaitForTheSlow) {
  Simulated simulated({.name = "ssp", .staleness = 1}, 7, 1, withStraggler(1), 2);
  EXPECT_EQ(simulated.times(), (Times{1000, 2000, 4000, 5000, 8000, 9000, 12000}));
  const VirtualOutcome outcome = simulated.run.outcome();
  // Worker 0 has finished 2 at 2 s, and may begin its third when the straggler has finished one, at 4 s, and its fourth at 8 s.
  EXPECT_EQ(classCalled(outcome, "worker").waiting, (4 - 2 + 8 - 5) * kSecond);
  EXPECT_EQ(classCalled(outcome, "worker").works, 4);
  EXPECT_EQ(classCalled(outcome, "worker (straggler)").waiting, 0);
}

TEST(VirtualBackup, AStragglersPartIsNotWaitedForAndNotEvenComputed) {
  Simulated simulated({.name = "backup", .backups = 1, .members = 3}, 8, 3, withStraggler(2), 3);
  EXPECT_EQ(simulated.times(), (Times{1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000}));
  EXPECT_EQ(simulated.run.outcome().dropped, 2) << "its part of step 0 at 4 s, and of step 3 at 8 s";
  EXPECT_EQ(simulated.bench.computed(), 16);
}

TEST(VirtualBulkSynchronous, AllWaitForTheStraggler) {
  ClusterModel model = withStraggler(1);
  model.compute = {.secondsPerSample = 1};
  Simulated simulated({.name = "bsp"}, 3, 2, model, 2);
  // Step 0 is the first one's alone: it had joined when nobody else was there.
  EXPECT_EQ(simulated.times(), (Times{2000, 6000, 10000}));
  EXPECT_EQ(classCalled(simulated.run.outcome(), "worker").waiting, 3 * kSecond)
      << "what follows a worker's last work is no waiting";
}

TEST(VirtualCenter, ACableIsAQueue) {
  ClusterModel model = secondEach();
  model.links = {.latency = 0.010, .bandwidth = 1000};  // 48 bytes take 48 ms
  Simulated simulated({.name = "async"}, 4, 1, model, 2);
  // Joined at 10, assigned at 20, asked at 30; the server sends to one until 78 and to the other until 126, which has it at
  // 136. One has pushed from 1088 to 1146; the other, from 1136 on, just after that.
  EXPECT_EQ(simulated.times(), (Times{1146, 1194, 2262, 2310}));
  EXPECT_EQ(simulated.run.outcome().bytes, (4 + 6) * 48u);
}

TEST(VirtualCenter, AHostHasItsOwnCableAndItsInside) {
  ClusterModel model = secondEach();
  model.hosts = {{.name = "a", .workers = 1, .servers = 0, .latency = 0.020, .bandwidth = 500},
                 {.name = "b", .workers = 1, .servers = 1}};
  model.links = {.latency = 0.010, .bandwidth = 1000};
  model.sameHost = {.latency = 0.001, .bandwidth = 48000};
  Simulated far({.name = "async"}, 2, 1, model, 2);
  // Worker 1 is at home: joined at 1, assigned at 2, asked at 3, 2 ms for the weights, and 2 for the gradient. Both works are its own.
  EXPECT_EQ(far.times(), (Times{1007, 2011}));
  model.hosts[1].workers = 0;
  Simulated away({.name = "async"}, 1, 1, model, 1);
  // 20, 40, 60; 48 ms leave the server, but take 96 to come: 60 + 20 + 96. The gradient: 96 + 20.
  EXPECT_EQ(away.times(), (Times{1176 + 116}));
}

TEST(VirtualCenter, SeveralServersHaveASliceEachAndTheFirstHearsWhenAllHaveTheGradient) {
  ClusterModel model = secondEach();
  model.links.latency = 0.010;
  Simulated one({.name = "async"}, 6, 2, model, 3, 1);
  Simulated two({.name = "async"}, 6, 2, model, 3, 2);
  EXPECT_EQ(one.times().front(), 1050);
  EXPECT_EQ(two.times().front(), 1070) << "the other server's word, and the worker's";
  EXPECT_EQ(weightsAfter(two.run), weightsAfter(one.run));
}

TEST(VirtualCenter, WhatDiesWithItsWorkerIsGivenToAnother) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 1}, .at = 1.5, .back = 1}};
  Simulated simulated({.name = "async"}, 7, 1, model, 2);
  EXPECT_EQ(simulated.times(), (Times{1000, 1000, 2000, 3000, 3500, 4000, 4500}));
  const VirtualOutcome outcome = simulated.run.outcome();
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(outcome.lost, 1);
  EXPECT_EQ(outcome.classes.front().away, kSecond);
  EXPECT_EQ(outcome.classes.front().works, 7) << "every step once";
  EXPECT_EQ(simulated.bench.computed(), 7) << "what is lost is not computed";
}

TEST(VirtualCenter, ADeadPartOfAStepIsComputedByAnother) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {.worker = 1}, .at = 1.5}};
  for (const int servers : {1, 2}) {
    Simulated simulated({.name = "bsp"}, 4, 4, model, 2, servers);
    Simulated calm({.name = "bsp"}, 4, 4, secondEach(), 2, servers);
    // Step 1 is shared, from 1 s on; at 2 s worker 0 takes the other's part too.
    EXPECT_EQ(simulated.times(), (Times{1000, 3000, 4000, 5000}));
    EXPECT_EQ(calm.times(), (Times{1000, 2000, 3000, 4000}));
    EXPECT_EQ(weightsAfter(simulated.run), weightsAfter(calm.run));
  }
}

TEST(VirtualCenter, WhatIsBeingSentStillComes) {
  ClusterModel model = secondEach();
  model.links = {.latency = 0, .bandwidth = 480};  // 0.1 s
  model.hosts = {{.name = "w", .count = 2, .workers = 1, .servers = 0},
                 {.name = "s", .workers = 0, .servers = 1}};
  // Worker 0 has the weights at 0.1 s and sends from 1.1 to 1.2 s.
  model.failures = {{.who = {.worker = 0}, .at = 1.15}};
  Simulated simulated({.name = "async"}, 5, 1, model, 2);
  const Times times = simulated.times();
  EXPECT_EQ(times.front(), 1200);
  EXPECT_EQ(simulated.run.outcome().classes.front().away, simulated.run.now() - 1150000000);
  EXPECT_EQ(simulated.run.outcome().lost, 0);
  EXPECT_EQ(simulated.run.outcome().classes.front().works, 5);
}

TEST(VirtualCenter, SaysWhenNobodyIsLeft) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {}, .at = 2.5}};
  Simulated simulated({.name = "async"}, 100, 1, model, 2);
  EXPECT_EQ(
      errorOf<UsageError>([&] { simulated.times(); }),
      "at 2.500 virtual seconds all workers that the rule needs have failed for good, and 4 of 100 steps are "
      "done; let some of them come 'back' in c.yaml");
}

TEST(VirtualCenter, SaysThatFailuresLeaveNoTime) {
  ClusterModel model = secondEach();
  model.failures = {{.who = {}, .every = 0.001, .back = 0.001}};
  Simulated simulated({.name = "async"}, 100, 1, model, 2);
  EXPECT_NE(
      errorOf<UsageError>([&] { simulated.times(); }).find("fail so often that no step is finished any more"),
      std::string::npos);
}

// With works of one length and no delays, all come in turn.
TEST(VirtualAsync, WithoutDelaysIsTheSequenceThatAHandDrives) {
  for (const bool isStale : {false, true}) {
    for (const int places : {1, 2, 5}) {
      const CenterRule rule{.name = isStale ? "ssp" : "async", .staleness = 2, .scaleRate = true};
      constexpr int kWorkers = 3;
      constexpr Step kTarget = 12;
      Simulated simulated(rule, kTarget, 2, secondEach(), kWorkers, 1, places);
      simulated.times();

      const CenterSetup setup = TestStart::setup(rule, kTarget, 2);
      const ParameterLayout layout(setup.parameters);
      ShardStore store(layout, {.optimizer = setup.optimizer, .grains = 2, .begin = 0, .end = kTestFloats},
                       Acceptance::AtOnce, true);
      std::ranges::fill(store.weights(), 1.0F);
      const std::unique_ptr<CenterPolicy> policy = makePolicy(setup, {});
      std::vector<std::deque<Work>> orders(kWorkers);
      const auto hear = [&](const Event& event) {
        for (const Decision& decision : policy->handle(event)) {
          if (const auto* assign = std::get_if<Assign>(&decision))
            orders[static_cast<std::size_t>(assign->member)].push_back(assign->work);
        }
      };
      for (MemberId member = 0; member < kWorkers; ++member) hear(Joined{member});
      std::vector<std::pair<std::shared_ptr<const FloatBuffer>, Step>> weights(kWorkers,
                                                                               {store.snapshot(), 0});
      while (policy->progress().done < kTarget) {
        std::vector<std::optional<Work>> works(kWorkers);
        for (std::size_t i = 0; i < kWorkers; ++i) {
          if (orders[i].empty()) continue;
          works[i] = orders[i].front();
          orders[i].pop_front();
        }
        for (std::size_t i = 0; i < kWorkers; ++i) {
          if (!works[i]) continue;
          InventedBench bench(2);
          Workbench::Task task;
          task.work = *works[i];
          task.weights = {weights[i].first->span()};
          task.done = [&](const Workbench::Result& result) {
            FloatBuffer gradient = store.takeBuffer();
            std::ranges::copy(result.gradients.front().sums, gradient.data());
            store.push({.step = works[i]->step, .node = 0, .basis = weights[i].second}, std::move(gradient));
          };
          bench.compute({&task, 1});
          weights[i] = {store.snapshot(), store.version()};
          hear(Finished{static_cast<MemberId>(i), *works[i]});
        }
      }
      EXPECT_EQ(weightsAfter(simulated.run),
                std::vector<float>(store.weights().begin(), store.weights().end()));
    }
  }
}

TEST(VirtualCenter, IsTheSameForAnyNumberOfPlaces) {
  ClusterModel model = withStraggler(3);
  model.compute.jitter = 0.2;
  model.links = {.latency = 0.01, .bandwidth = 2000};
  model.failures = {{.who = {}, .every = 20, .back = 1}};
  std::vector<std::vector<float>> weights;
  std::vector<VirtualTime> ends;
  for (const int places : {1, 2, 7}) {
    Simulated simulated({.name = "async", .scaleRate = true}, 60, 2, model, 5, 2, places);
    simulated.times();
    weights.push_back(weightsAfter(simulated.run));
    ends.push_back(simulated.run.now());
    EXPECT_GT(simulated.run.outcome().failures, 0);
  }
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
  EXPECT_EQ(ends, (std::vector<VirtualTime>(3, ends[0])));
}

TEST(VirtualCenter, EndsWhatIsBegunWhenItIsHalted) {
  Simulated simulated({.name = "async"}, 1000, 1, secondEach(), 2);
  for (int i = 0; i < 6; ++i) simulated.run.advance();
  simulated.run.halt();
  // Each has two works.
  EXPECT_EQ(simulated.times(), (Times{4000, 4000, 5000, 5000}));
}

}  // namespace
}  // namespace cohort
