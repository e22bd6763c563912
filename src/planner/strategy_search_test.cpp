#include "planner/strategy_search.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "models/network.h"
#include "parallel/partition.h"
#include "planner/step_simulation.h"
#include "planner/test_network.h"

namespace cohort {
namespace {

SearchResult search(const Graph& graph, const StepSettings& settings, const CostTable& costs, int workers,
                    const LinkModel& link) {
  return searchStrategy(graph, settings, costs, evenNetwork(workers, link));
}

std::string textOf(const StrategyForecast& forecast) {
  return toText(forecast.strategy) + "; " + toText(forecast.mesh);
}

// A second for fifty thousand million multiply-adds forward, twice that backward.
CostTable costsByMultiplyAdds(const Graph& graph, std::int64_t grainSamples) {
  CostTable table(1e-9);
  for (const Node& node : graph.nodes) {
    const double seconds =
        static_cast<double>((multiplyAdds(graph, node) + graph.shapeOf(node.output).count()) * grainSamples) *
        2e-11;
    table.set(node.name, 1, {.forwardSeconds = seconds, .backwardSeconds = 2 * seconds});
  }
  return table;
}

// ---- strategies of splits

TEST(StrategyOfSplits, GivesBackTheSplits) {
  const Graph graph = builtinNetworks().find("googlenet").build({3, 224, 224}, 1000);
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<LayerSplit> splits(graph.nodes.size(), LayerSplit::Data);
    for (const Node& node : graph.nodes) {
      const bool isLayer = std::holds_alternative<Conv>(node.op) || std::holds_alternative<Dense>(node.op);
      if (isLayer && random() % 2 == 0) splits[static_cast<std::size_t>(node.id)] = LayerSplit::Model;
    }
    EXPECT_EQ(splitsOf(graph, strategyOf(graph, splits)), splits);
  }
}

TEST(StrategyOfSplits, IsPlainWhereItCanBe) {
  const Graph graph = builtinNetworks().find("alexnet").build({3, 224, 224}, 1000);
  for (const Strategy& strategy : {Strategy::data(), Strategy::model(), Strategy::hybrid()})
    EXPECT_EQ(strategyOf(graph, splitsOf(graph, strategy)), strategy);
}

TEST(StrategyOfSplits, TakesNamesLiterally) {
  ModelBuilder b({.channels = 4}, 4);
  ValueId x = b.input();
  for (const char* name : {"a.1", "ab1", "a|b", "ab"}) x = b.dense(name, x, {.outputs = 4});
  b.softmaxLoss("loss", x);
  const Graph graph = b.build();
  std::vector<LayerSplit> splits(graph.nodes.size(), LayerSplit::Data);
  splits[0] = splits[2] = LayerSplit::Model;
  EXPECT_EQ(splitsOf(graph, strategyOf(graph, splits)), splits);
}

// ---- the search

TEST(SearchStrategy, ANetworkThatCostsNothingNeedsNoDivision) {
  const Graph graph = denseChain(3);
  const SearchResult result = search(graph, {.grains = 4}, evenCosts(graph, {1, 2}), 4, {});
  EXPECT_EQ(textOf(result.chosen()), "data; data=4,model=1");
  EXPECT_DOUBLE_EQ(result.chosen().step.seconds, 9);
}

// Weights travel for a second and values in no time: by data the last second shows.
TEST(SearchStrategy, HeavyWeightsAreDivided) {
  const Graph graph = denseChain(2);
  const SearchResult result =
      search(graph, {.grains = 2}, evenCosts(graph, {1, 2}), 2, {.bandwidth = kLayerBytes});
  EXPECT_DOUBLE_EQ(result.data().step.seconds, 7);
  EXPECT_EQ(textOf(result.chosen()), "hybrid; data=1,model=2");
  EXPECT_NEAR(result.chosen().step.seconds, 6 + 2 * kValueBytes / kLayerBytes, 1e-12);
}

TEST(SearchStrategy, LatencyAloneKeepsLayersWhole) {
  const Graph graph = denseChain(2);
  const SearchResult result = search(graph, {.grains = 8}, evenCosts(graph, {1, 2}), 2, {.latency = 1});
  EXPECT_EQ(textOf(result.chosen()), "data; data=2,model=1");
  EXPECT_DOUBLE_EQ(result.chosen().step.seconds, 4 * 6 + 2) << "a latency there and one back, once in a step";
}

TEST(SearchStrategy, FindsWhatNoPlainStrategyIs) {
  // fc1 is much slower when it is divided; fc2's weights are worth it.
  const Graph graph = denseChain(2);
  CostTable costs = evenCosts(graph, {0, 0.1});
  costs.set("fc1", 2, {0, 10});
  const SearchResult result = search(graph, {.grains = 2}, costs, 2, {.bandwidth = kLayerBytes});
  EXPECT_EQ(textOf(result.chosen()), "data, fc2=model; data=1,model=2");
  EXPECT_NEAR(result.chosen().step.seconds, 0.2 + 1 + 2 * kValueBytes / kLayerBytes, 1e-12);
}

TEST(SearchStrategy, OneWorkerHasOneCandidate) {
  const Graph graph = denseChain(1);
  const SearchResult result = search(graph, {.grains = 2}, evenCosts(graph, {1, 2}), 1, {});
  EXPECT_EQ(result.candidates.size(), 1U);
  EXPECT_DOUBLE_EQ(result.chosen().step.seconds, 6);
}

TEST(SearchStrategy, IsNeverSlowerThanDataAndTheLeastOfItsCandidates) {
  std::mt19937 random(7);
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  int divided = 0;
  for (int i = 0; i < 60; ++i) {
    ModelBuilder b({.channels = 8, .height = 4, .width = 4}, 16);
    ValueId x = b.convRelu("conv1", b.input(), {.outputs = 16 << random() % 3});
    x = b.add({b.conv("conv2", x, {.outputs = static_cast<int>(b.shape(x).channels)}), x});
    for (const char* name : {"fc1", "fc2"}) x = b.denseRelu(name, x, {.outputs = 16 << random() % 5});
    b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 16}));
    const Graph graph = b.build();
    CostTable costs(between(0, 1e-6));
    for (const Node& node : graph.nodes) {
      for (const int workers : {1, 2, 4}) costs.set(node.name, workers, {between(0, 0.1), between(0, 0.1)});
    }
    const int workers = 1 << random() % 3;
    const StepSettings settings{.grains = workers + static_cast<int>(random() % 9),
                                .grainSamples = 1 + static_cast<int>(random() % 8),
                                .lanes = 1 + static_cast<int>(random() % 3)};
    const LinkModel link{.latency = between(0, 0.01), .bandwidth = std::pow(10, between(5, 8))};
    const SearchResult result = search(graph, settings, costs, workers, link);
    EXPECT_LE(result.chosen().step.seconds, result.data().step.seconds);
    EXPECT_EQ(result.data().strategy, Strategy::data());
    for (const StrategyForecast& candidate : result.candidates)
      EXPECT_LE(result.chosen().step.seconds, candidate.step.seconds);
    divided += result.best > 0 ? 1 : 0;
  }
  EXPECT_GT(divided, 10) << "otherwise nothing was searched";
  EXPECT_LT(divided, 60);
}

TEST(SearchStrategy, GivesTheSameEveryTime) {
  const Graph graph = builtinNetworks().find("alexnet").build({3, 224, 224}, 1000);
  const CostTable costs = costsByMultiplyAdds(graph, 8);
  const auto once = [&] {
    return search(graph, {.grains = 8, .grainSamples = 8}, costs, 4, {.latency = 1e-4, .bandwidth = 1.25e8});
  };
  const SearchResult result = once();
  EXPECT_EQ(result.candidates, once().candidates);
  EXPECT_LT(result.chosen().step.seconds, result.data().step.seconds)
      << "most of this network's weights are in dense layers, which the wire is too slow for";
}

TEST(SearchStrategy, TooFewGrainsAreAnError) {
  const Graph graph = denseChain(1);
  EXPECT_MENTIONS(errorOf<UsageError>([&] {
                    search(graph, {.grains = 3}, evenCosts(graph, {1, 2}), 4, {});
                  }),
                  "3 grains are too few for 4 workers");
}

TEST(SearchStrategy, DividesDeepNetworks) {
  for (const char* name : {"googlenet", "resnet50"}) {
    const Graph graph = builtinNetworks().find(name).build({3, 224, 224}, 1000);
    const CostTable costs = costsByMultiplyAdds(graph, 8);
    const SearchResult result =
        search(graph, {.grains = 16, .grainSamples = 8}, costs, 8, {.latency = 1e-4, .bandwidth = 1.25e8});
    EXPECT_LT(result.chosen().step.seconds, result.data().step.seconds) << name;
  }
}

}  // namespace
}  // namespace cohort
