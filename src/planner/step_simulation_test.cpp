#include "planner/step_simulation.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "models/network.h"
#include "planner/test_network.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr NodeCost kOneAndTwo{.forwardSeconds = 1, .backwardSeconds = 2};
constexpr Mesh kTwoByData{.data = 2, .model = 1};
constexpr Mesh kGroupOfTwo{.data = 1, .model = 2};

StepForecast simulate(const Graph& graph, const Strategy& strategy, const Mesh& mesh,
                      const StepSettings& settings, const CostTable& costs, const LinkModel& link) {
  return simulateStep(graph, strategy, mesh, settings, costs, evenNetwork(mesh.workers(), link));
}

// "0.1 forward fc1 0-1": a line for each span of a worker's thread.
std::vector<std::string> spansOf(const StepForecast& forecast, int worker, int thread) {
  std::vector<std::string> lines;
  for (const TimeSpan& span : forecast.spans) {
    if (span.worker == worker && span.thread == thread)
      lines.push_back(fmt::format("{} {:g}-{:g}", span.what, span.begin, span.end));
  }
  return lines;
}

// ---- one worker

TEST(SimulateStep, OneWorkerComputesItsGrainsAndThenHasUpdated) {
  const Graph graph = denseChain(1);
  const CostTable costs = evenCosts(graph, kOneAndTwo, 4.0 / (1024 * 1024));
  const StepForecast step =
      simulate(graph, Strategy::data(), {}, {.grains = 3, .keepSpans = true}, costs, {});
  EXPECT_DOUBLE_EQ(step.seconds, 3 * 3 + 4);
  EXPECT_EQ(step.workers[0].sentBytes, 0U);
  EXPECT_DOUBLE_EQ(step.workers[0].computeSeconds, 13);
  EXPECT_THAT(spansOf(step, 0, 0),
              ElementsAre("forward fc1 0-1", "backward fc1 1-3", "forward fc1 3-4", "backward fc1 4-6",
                          "forward fc1 6-7", "backward fc1 7-9", "update 9-13"));
}

TEST(SimulateStep, LanesShareTheGrainsAndTheLastToCloseAPieceAppliesIt) {
  const Graph graph = denseChain(1);
  const CostTable costs = evenCosts(graph, kOneAndTwo, 4.0 / (1024 * 1024));
  const StepSettings settings{.grains = 3, .lanes = 2, .keepSpans = true};
  const StepForecast step = simulate(graph, Strategy::data(), {}, settings, costs, {});
  EXPECT_DOUBLE_EQ(step.seconds, 10) << "two grains on one of the lanes, and the update";
  const auto update = std::ranges::find(step.spans, "update", &TimeSpan::what);
  EXPECT_DOUBLE_EQ(update->begin, 6);
}

TEST(SimulateStep, AFasterHostComputesFaster) {
  const Graph graph = denseChain(2);
  WorkerNetwork network = evenNetwork(1, {});
  network.hosts[0].speed = 4;
  EXPECT_DOUBLE_EQ(
      simulateStep(graph, Strategy::data(), {}, {.grains = 2}, evenCosts(graph, kOneAndTwo), network).seconds,
      3);
}

// ---- by data

// A slice goes, is applied, and comes back: 2 (latency + half a bucket) + the update of half of it.
TEST(SimulateStep, OneLayerByDataTakesItsExchangeAfterItsGradient) {
  const Graph graph = denseChain(1);
  const CostTable costs = evenCosts(graph, kOneAndTwo, 4.0 / (1024 * 1024));
  const StepSettings settings{.grains = 2, .keepSpans = true};
  const StepForecast step = simulate(graph, Strategy::data(), kTwoByData, settings, costs,
                                     {.latency = 0.25, .bandwidth = kLayerBytes / 8});
  EXPECT_DOUBLE_EQ(step.seconds, 3 + (0.25 + 4) + 2 + (4 + 0.25));
  EXPECT_DOUBLE_EQ(step.workers[1].computeSeconds, 3);
  EXPECT_EQ(step.workers[1].sentBytes, static_cast<std::size_t>(kLayerBytes));
  EXPECT_THAT(spansOf(step, 1, TimeSpan::kCommunication),
              ElementsAre("gradients of bucket 0 to worker 0 3-7", "update bucket 0 7.25-9.25",
                          "weights of bucket 0 to worker 0 9.25-13.25"));
}

TEST(SimulateStep, ANetworkThatCostsNothingLeavesTheComputing) {
  const Graph graph = denseChain(3);
  EXPECT_DOUBLE_EQ(
      simulate(graph, Strategy::data(), kTwoByData, {.grains = 4}, evenCosts(graph, kOneAndTwo), {}).seconds,
      2 * 3 * 3);
}

// Backward: fc3, fc2, fc1, two seconds each. A bucket takes a second to go and to come back: those of fc3 and fc2 are away before the
// next one is complete.
TEST(SimulateStep, ExchangesHideBehindTheLayersBefore) {
  const Graph graph = denseChain(3);
  const StepForecast step = simulate(graph, Strategy::data(), kTwoByData, {.grains = 2},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  EXPECT_DOUBLE_EQ(step.seconds, 3 * 3 + 1) << "only the first layer's exchange shows";
}

// The same with ten seconds for each: from the end of fc3's gradient on the network is busy.
TEST(SimulateStep, ExchangesThatTakeLongerThanLayersShow) {
  const Graph graph = denseChain(3);
  const StepForecast step = simulate(graph, Strategy::data(), kTwoByData, {.grains = 2},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes / 10});
  EXPECT_DOUBLE_EQ(step.seconds, 3 + 2 + 3 * 10);
}

TEST(SimulateStep, BucketsLeaveOnlyAfterTheLastGrain) {
  const Graph graph = denseChain(1);
  const StepForecast step = simulate(graph, Strategy::data(), kTwoByData, {.grains = 8, .keepSpans = true},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  EXPECT_DOUBLE_EQ(step.seconds, 4 * 3 + 1);
  EXPECT_EQ(spansOf(step, 0, TimeSpan::kCommunication).front(), "gradients of bucket 0 to worker 1 12-12.5");
}

// The tree of five grains is ((0 1) 2) (3 4). The first worker has grains 0 and 1, one node of it; the second 2 and (3 4), two nodes.
TEST(SimulateStep, GrainsThatAreNoSubtreeAreSentInSeveralSums) {
  const Graph graph = denseChain(1);
  const StepSettings settings{.grains = 5};
  const StepForecast step =
      simulate(graph, Strategy::data(), kTwoByData, settings, evenCosts(graph, kOneAndTwo), {.bandwidth = 0});
  const auto half = static_cast<std::size_t>(kLayerBytes) / 2;
  EXPECT_EQ(step.workers[0].sentBytes, half + half) << "grains 0 and 1: one sum, and the weights";
  EXPECT_EQ(step.workers[1].sentBytes, 2 * half + half) << "grain 2, and 3 and 4: two sums, and the weights";
}

// Every worker sends 3/4 of the gradients and 3/4 of the weights.
TEST(SimulateStep, FourWorkersSendWhatAnAllReduceSends) {
  const Graph graph = denseChain(2);
  const StepForecast step = simulate(graph, Strategy::data(), {.data = 4}, {.grains = 4},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  for (const WorkerForecast& worker : step.workers)
    EXPECT_EQ(worker.sentBytes, static_cast<std::size_t>(2 * 2 * kLayerBytes * 3 / 4));
  // The last bucket: three slices of a quarter go, and come.
  EXPECT_DOUBLE_EQ(step.seconds, 2 + 4 + 0.75 + 0.75);
}

TEST(SimulateStep, SixteenBitsHalveWhatTravels) {
  const Graph graph = denseChain(1);
  const StepForecast step = simulate(graph, Strategy::data(), kTwoByData, {.grains = 2, .wireFloatBytes = 2},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  EXPECT_DOUBLE_EQ(step.seconds, 3.5);
  EXPECT_EQ(step.workers[0].sentBytes, static_cast<std::size_t>(kLayerBytes) / 2);
}

TEST(SimulateStep, WorkersOfAHostShareItsCable) {
  const Graph graph = denseChain(1);
  WorkerNetwork network = evenNetwork(2, {.bandwidth = kLayerBytes});
  network.hostOf = {0, 0, 1, 1};
  const StepForecast step = simulateStep(graph, Strategy::data(), {.data = 4}, {.grains = 4},
                                         evenCosts(graph, kOneAndTwo), network);
  // Two workers send two quarters each over one cable, there and back; inside a host nothing takes time.
  EXPECT_DOUBLE_EQ(step.seconds, 3 + 1 + 1);
}

// ---- by model

// Nothing before the layer moves, and its gradients stay; the outputs go to their samples' workers before the loss.
TEST(SimulateStep, OneLayerByModelMovesOutputsOnly) {
  const Graph graph = denseChain(1);
  const CostTable costs = evenCosts(graph, kOneAndTwo, 4.0 / (1024 * 1024));
  const StepSettings settings{.grains = 2, .keepSpans = true};
  const StepForecast step = simulate(graph, Strategy::model(), kGroupOfTwo, settings, costs,
                                     {.latency = 0.25, .bandwidth = kValueBytes});
  // Half of one sample's outputs each way: half a second and a latency, forward and backward; then the update of half the weights.
  EXPECT_DOUBLE_EQ(step.seconds, 1 + 0.75 + 0.75 + 2 + 2);
  EXPECT_EQ(step.workers[0].sentBytes, static_cast<std::size_t>(kValueBytes));
  EXPECT_DOUBLE_EQ(step.workers[0].waitSeconds, 1.5);
  EXPECT_THAT(spansOf(step, 0, 0),
              ElementsAre("forward fc1 0-1", "wait from-fc1 1-1.75", "wait from-fc1 1.75-2.5",
                          "backward fc1 2.5-4.5", "update 4.5-6.5"));
  EXPECT_THAT(spansOf(step, 0, TimeSpan::kCommunication),
              ElementsAre("from-fc1 to worker 1 1-1.5", "from-fc1 to worker 1 1.75-2.25"));
}

// Between two divided layers each has half the outputs of two samples, and needs the other's: a whole value. Backward it travels during
// the second half of fc2's two seconds.
TEST(SimulateStep, AGradientTravelsWhileItsLayersWeightsAreComputed) {
  const Graph graph = denseChain(2);
  const auto secondsWith = [&](double valueSeconds) {
    return simulate(graph, Strategy::model(), kGroupOfTwo, {.grains = 2}, evenCosts(graph, kOneAndTwo),
                    {.bandwidth = kValueBytes / valueSeconds})
        .seconds;
  };
  // fc1, gather, fc2, half a value each way at the loss, fc2, fc1.
  EXPECT_DOUBLE_EQ(secondsWith(1), 1 + 1 + 1 + 0.5 + 0.5 + 2 + 2) << "hidden";
  EXPECT_DOUBLE_EQ(secondsWith(4), 1 + 4 + 1 + 2 + 2 + (1 + 4) + 2) << "three of its four seconds show";
}

TEST(SimulateStep, OtherLanesComputeWhileOneWaits) {
  const Graph graph = denseChain(1);
  const StepSettings settings{.grains = 4, .lanes = 2};
  const LinkModel link{.latency = 3, .bandwidth = 0};
  const StepForecast step =
      simulate(graph, Strategy::model(), kGroupOfTwo, settings, evenCosts(graph, kOneAndTwo), link);
  EXPECT_DOUBLE_EQ(step.seconds, 1 + 3 + 3 + 2) << "both lanes wait at the same time";
}

// fc1 by data, fc2 by model: fc1's gradient is exchanged, fc2's stays.
TEST(SimulateStep, ALayerByDataInADividedNetworkIsExchanged) {
  const Graph graph = denseChain(2);
  Strategy strategy = Strategy::data();
  strategy.rules = {{"fc2", LayerSplit::Model}};
  const StepForecast step = simulate(graph, strategy, kGroupOfTwo, {.grains = 2},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  const double value = kValueBytes / kLayerBytes;
  // A whole sample goes to the other before fc2, half a one at the loss; the gradient of the former is hidden.
  EXPECT_NEAR(step.seconds, 1 + value + 1 + value / 2 + value / 2 + 2 + 2 + 1, 1e-12);
  EXPECT_EQ(step.workers[0].sentBytes, static_cast<std::size_t>(kLayerBytes + 3 * kValueBytes));
}

// Two groups of two: private halves of the layer are exchanged between counterparts.
TEST(SimulateStep, GroupsExchangeTheirPrivateParameters) {
  const Graph graph = denseChain(1);
  const Mesh mesh{.data = 2, .model = 2};
  const StepForecast step = simulate(graph, Strategy::model(), mesh, {.grains = 4},
                                     evenCosts(graph, kOneAndTwo), {.bandwidth = kLayerBytes});
  // Of half the layer half goes to the counterpart, as gradients and as weights.
  EXPECT_EQ(step.workers[3].sentBytes, static_cast<std::size_t>(kLayerBytes / 2 + kValueBytes));
  EXPECT_NEAR(step.seconds, 1 + 2 + 0.5 + kValueBytes / kLayerBytes, 1e-12);
}

TEST(SimulateStep, RoundsThatAreNotFullTakeAsLong) {
  const Graph graph = denseChain(1);
  const auto secondsWith = [&](int grains) {
    return simulate(graph, Strategy::model(), kGroupOfTwo, {.grains = grains}, evenCosts(graph, kOneAndTwo),
                    {})
        .seconds;
  };
  EXPECT_DOUBLE_EQ(secondsWith(3), 6);
  EXPECT_DOUBLE_EQ(secondsWith(4), 6);
}

TEST(SimulateStep, MemoryIsDividedWithTheLayers) {
  const Graph graph = denseChain(1);
  const auto memoryWith = [&](const Strategy& strategy, const Mesh& mesh) {
    return simulate(graph, strategy, mesh, {.grains = 4, .optimizerSlots = 2}, evenCosts(graph, kOneAndTwo),
                    {})
        .workers[0]
        .memory;
  };
  const auto layer = static_cast<std::size_t>(kLayerBytes);
  const auto value = static_cast<std::size_t>(kValueBytes);
  // The input, the outputs, and the loss.
  EXPECT_EQ(
      memoryWith(Strategy::data(), kTwoByData),
      (MemoryForecast{.weights = layer, .gradients = layer, .slots = layer, .activations = 2 * value + 4}));
  // The inputs of two samples, half of their outputs, those of the own one, and the loss.
  EXPECT_EQ(memoryWith(Strategy::model(), kGroupOfTwo),
            (MemoryForecast{.weights = layer / 2,
                            .gradients = layer / 2,
                            .slots = layer,
                            .activations = (2 + 1 + 1) * value + 4}));
}

// What a real worker was seen to send in a step (docs/parallel.md), on average and in MB.
TEST(SimulateStep, WorkersSendWhatRealOnesSend) {
  const auto megabytes = [](const char* network, const Strategy& strategy, int workers, std::int64_t batch) {
    const Graph graph = builtinNetworks().find(network).build({3, 256, 256}, 1000);
    const Mesh mesh{.data = 1, .model = workers};
    const StepSettings settings{.grains = 4, .grainSamples = batch / 4};
    const StepForecast step = simulate(graph, strategy, mesh, settings, evenCosts(graph, kOneAndTwo), {});
    double bytes = 0;
    for (const WorkerForecast& worker : step.workers) bytes += static_cast<double>(worker.sentBytes);
    return bytes / workers / 1e6;
  };
  EXPECT_NEAR(megabytes("alexnet", Strategy::data(), 2, 128), 244.40, 0.005);
  EXPECT_NEAR(megabytes("alexnet", Strategy::hybrid(), 2, 128), 19.05, 0.005);
  EXPECT_NEAR(megabytes("alexnet", Strategy::model(), 2, 128), 122.15, 0.005);
  struct Seen {
    const char* network;
    int workers;
    double data, model, hybrid;  // three digits
  };
  for (const Seen& seen : {Seen{"alexnet", 2, 244, 30.5, 12.2}, Seen{"alexnet", 4, 367, 45.8, 18.2},
                           Seen{"overfeat", 2, 584, 56.3, 69.7}, Seen{"overfeat", 4, 876, 84.4, 104},
                           Seen{"vgg11", 2, 657, 475, 42.2}, Seen{"vgg11", 4, 986, 713, 63.2}}) {
    for (const auto& [strategy, sent] :
         {std::pair{Strategy::data(), seen.data}, std::pair{Strategy::model(), seen.model},
          std::pair{Strategy::hybrid(), seen.hybrid}}) {
      EXPECT_EQ(fmt::format("{:.3g}", megabytes(seen.network, strategy, seen.workers, 32)),
                fmt::format("{:.3g}", sent))
          << seen.network << " on " << seen.workers << " by " << toText(strategy);
    }
  }
}

TEST(SimulateStep, TooFewGrainsAreAnError) {
  const Graph graph = denseChain(1);
  EXPECT_EQ(errorOf<UsageError>([&] {
              simulate(graph, Strategy::data(), kTwoByData, {.grains = 1}, evenCosts(graph, kOneAndTwo), {});
            }),
            "1 grains are too few for 2 workers: each computes one at least");
}

}  // namespace
}  // namespace cohort
