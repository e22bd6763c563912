#include "planner/layer_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/partition.h"
#include "planner/lane_program.h"
#include "planner/strategy_search.h"
#include "planner/test_network.h"

namespace cohort {
namespace {

constexpr LayerSplit kData = LayerSplit::Data;
constexpr LayerSplit kModel = LayerSplit::Model;

struct Question {
  Graph graph;
  Mesh mesh{.data = 1, .model = 2};
  StepSettings settings{.grains = 4};
  CostTable costs{};
  LinkModel link{};
  double exchangeShare = 1;
};

LayerChoice choose(const Question& question) {
  return chooseLayers(question.graph, question.mesh, question.settings, question.costs,
                      evenNetwork(question.mesh.workers(), question.link), question.exchangeShare);
}

// The additive cost of one strategy, from the graph that src/parallel makes of it.
double additiveSeconds(const Question& question, const Strategy& strategy) {
  const LocalGraph local = partition(question.graph, strategy, {0, question.mesh.model});
  const LaneProgram program = laneProgram(local, question.costs, question.settings.grainSamples);
  const int rounds =
      question.settings.grains / question.mesh.workers();  // tests have no padding, and one lane
  double seconds = 0;
  for (const LaneTask& task : program.tasks) seconds += rounds * task.seconds;
  for (const LaneCollective& collective : program.collectives) {
    for (const std::vector<std::size_t>& bytesTo : collective.bytesTo) {
      double bytes = 0;
      for (const std::size_t each : bytesTo) bytes += static_cast<double>(each);
      if (bytes > 0) seconds += rounds * (bytes / question.link.bandwidth + question.link.latency);
    }
  }
  for (std::size_t i = 0; i < local.isPrivate.size(); ++i) {
    const double sharers = local.isPrivate[i] ? question.mesh.data : question.mesh.workers();
    const auto floats = static_cast<double>(local.layout.parameters()[i].size);
    seconds += question.exchangeShare * (2 * 4 * floats * (sharers - 1) / sharers / question.link.bandwidth +
                                         question.costs.updateSeconds(1) * floats / sharers);
  }
  return seconds;
}

// Over every split of every layer.
double bruteForce(const Question& question) {
  std::vector<NodeId> layers;
  for (const Node& node : question.graph.nodes) {
    if (canDivide(node, question.mesh.model)) layers.push_back(node.id);
  }
  double least = std::numeric_limits<double>::infinity();
  for (unsigned choice = 0; choice < 1U << layers.size(); ++choice) {
    std::vector<LayerSplit> splits(question.graph.nodes.size(), kData);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((choice >> i & 1U) != 0) splits[static_cast<std::size_t>(layers[i])] = kModel;
    }
    least = std::min(least, additiveSeconds(question, strategyOf(question.graph, splits)));
  }
  return least;
}

// The splits of the layers alone.
std::vector<LayerSplit> layersOf(const Question& question, const LayerChoice& choice) {
  std::vector<LayerSplit> splits;
  for (const Node& node : question.graph.nodes) {
    if (canDivide(node, 1)) splits.push_back(choice.splits[static_cast<std::size_t>(node.id)]);
  }
  return splits;
}

// ---- by hand

// By data: computing, and a layer's bytes go once: 3 s + 1 s. By model: half an output each way.
TEST(ChooseLayers, OneLayerIsDividedWhereItsWeightsWeighMoreThanItsValues) {
  Question question{.graph = denseChain(1), .settings = {.grains = 2}, .link = {.bandwidth = kLayerBytes}};
  question.costs = evenCosts(question.graph, {1, 2});
  const LayerChoice choice = choose(question);
  EXPECT_THAT(layersOf(question, choice), testing::ElementsAre(kModel));
  EXPECT_NEAR(choice.seconds, 3 + kValueBytes / kLayerBytes, 1e-12);
}

// With 2048 samples a grain a value is twice a layer's weights: 2 s each way.
TEST(ChooseLayers, OneLayerStaysWholeWhereItsValuesWeighMore) {
  Question question{.graph = denseChain(1),
                    .settings = {.grains = 2, .grainSamples = 2048},
                    .link = {.bandwidth = kLayerBytes}};
  question.costs = evenCosts(question.graph, {1, 2});
  const LayerChoice choice = choose(question);
  EXPECT_THAT(layersOf(question, choice), testing::ElementsAre(kData));
  EXPECT_DOUBLE_EQ(choice.seconds, 3 + 1);
}

// fc2 is ten times as fast over two workers. Around it a value of v seconds is gathered (v there, v back) before, and v / 2 each way behind: 3 v
// in all, for 9 s of computing and 1 s of exchange.
TEST(ChooseLayers, ASwitchInTheMiddleIsMadeWhereItPays) {
  Question question{.graph = denseChain(3), .settings = {.grains = 2}};
  question.costs = evenCosts(question.graph, {0, 10});
  question.costs.set("fc1", 2, {0, 1000});
  question.costs.set("fc2", 2, {0, 1});
  question.costs.set("fc3", 2, {0, 1000});
  question.link.bandwidth = kLayerBytes;
  for (const auto& [samples, middle, seconds] :
       {std::tuple{3072, kModel, 10 + 1 + 10 + 2 + 3 * 3.0}, std::tuple{4096, kData, 30 + 3.0}}) {
    question.settings.grainSamples = samples;
    const LayerChoice choice = choose(question);
    EXPECT_THAT(layersOf(question, choice), testing::ElementsAre(kData, middle, kData)) << samples;
    EXPECT_NEAR(choice.seconds, seconds, 1e-9) << samples;
  }
}

TEST(ChooseLayers, AHiddenExchangeIsNoReasonToDivide) {
  Question question{.graph = denseChain(2), .settings = {.grains = 2}, .link = {.bandwidth = kLayerBytes}};
  question.costs = evenCosts(question.graph, {1, 2});
  question.exchangeShare = 0;
  EXPECT_THAT(layersOf(question, choose(question)), testing::ElementsAre(kData, kData));
  EXPECT_DOUBLE_EQ(choose(question).seconds, 6);
}

TEST(ChooseLayers, ALayerWithFewerOutputsThanWorkersStaysWhole) {
  ModelBuilder b({.channels = 1024}, 3);
  b.softmaxLoss("loss", b.dense("logits", b.dense("fc", b.input(), {.outputs = 1024}), {.outputs = 3}));
  Question question{.graph = b.build(), .mesh = {.data = 1, .model = 4}, .settings = {.grains = 4}};
  question.costs = evenCosts(question.graph, {1, 2});
  question.costs.set("logits", 4, {});
  question.link.bandwidth = 1e6;
  EXPECT_THAT(layersOf(question, choose(question)), testing::ElementsAre(kModel, kData));
}

// ---- against every possibility

void expectBest(Question question, unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  for (int i = 0; i < 20; ++i) {
    question.costs = CostTable(between(0, 1e-6));
    for (const Node& node : question.graph.nodes) {
      for (const int workers : {1, question.mesh.model})
        question.costs.set(node.name, workers, {between(0, 0.1), between(0, 0.1)});
    }
    question.link = {.latency = between(0, 0.01), .bandwidth = std::pow(10, between(4, 8))};
    question.exchangeShare = between(0, 1);
    question.settings.grains = question.mesh.workers() * (1 + i % 3);
    question.settings.grainSamples = 1 + i;
    const double best = bruteForce(question);
    const LayerChoice choice = choose(question);
    EXPECT_NEAR(choice.seconds, best, 1e-9 * best + 1e-6 * 1e-4) << i;
    EXPECT_NEAR(additiveSeconds(question, strategyOf(question.graph, choice.splits)), best, 1e-9 * best) << i;
  }
}

TEST(ChooseLayers, IsTheBestOfAllOnChains) {
  for (int layers = 1; layers <= 5; ++layers) {
    ModelBuilder b({.channels = 64}, 16);
    ValueId x = b.input();
    for (int i = 1; i <= layers; ++i) x = b.denseRelu("fc" + std::to_string(i), x, {.outputs = 16 * i});
    b.softmaxLoss("loss", b.dense("logits", b.dropout(x, 0.5f), {.outputs = 16}));
    expectBest({.graph = b.build()}, static_cast<unsigned>(layers));
  }
}

TEST(ChooseLayers, IsTheBestOfAllOnConvolutionsThatEndInDenseLayers) {
  ModelBuilder b({.channels = 3, .height = 8, .width = 8}, 16);
  ValueId x = b.maxPool(b.convRelu("conv1", b.input(), {.outputs = 32, .kernel = 3}), 2, 2);
  x = b.lrn(b.relu(b.batchNorm("norm", b.conv("conv2", x, {.outputs = 64}))), {});
  x = b.convRelu("conv3", x, {.outputs = 64, .groups = 2});
  b.softmaxLoss("loss", b.dense("logits", b.denseRelu("fc", x, {.outputs = 32}), {.outputs = 16}));
  const Graph graph = b.build();
  expectBest({.graph = graph}, 6);
  expectBest({.graph = graph, .mesh = {.data = 2, .model = 2}}, 7);
}

TEST(ChooseLayers, IsTheBestOfAllOnBranches) {
  ModelBuilder b({.channels = 4, .height = 4, .width = 4}, 16);
  const ValueId stem = b.convRelu("stem", b.input(), {.outputs = 32});
  const ValueId left = b.convRelu("left", stem, {.outputs = 32});
  const ValueId right = b.conv("right", b.maxPool(stem, 2, 2, Padding::same()), {.outputs = 64});
  const ValueId summed = b.add({b.conv("back", left, {.outputs = 32}), stem});
  b.softmaxLoss("side", b.dense("side.logits", b.globalAveragePool(summed), {.outputs = 16}));
  const ValueId joined = b.concat({b.averagePool(summed, 2, 2), right});
  const ValueId x = b.dropout(b.globalAveragePool(joined), 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 16}));
  const Graph graph = b.build();
  expectBest({.graph = graph}, 8);
  expectBest({.graph = graph, .mesh = {.data = 1, .model = 4}}, 9);
}

// What is brought once serves all; and what comes before all parameters has no gradient to bring back.
TEST(ChooseLayers, IsTheBestOfAllWhereSeveralReadAValue) {
  ModelBuilder b({.channels = 16, .height = 8, .width = 8}, 16);
  const ValueId image = b.maxPool(b.input(), 2, 2);
  const ValueId stem = b.convRelu("stem", image, {.outputs = 32});
  const ValueId left = b.conv("left", stem, {.outputs = 64});
  const ValueId right = b.conv("right", stem, {.outputs = 64});
  const ValueId first = b.conv("first", image, {.outputs = 64});
  const ValueId x = b.globalAveragePool(b.add({left, right, first}));
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 16}));
  const Graph graph = b.build();
  expectBest({.graph = graph}, 10);
  expectBest({.graph = graph, .mesh = {.data = 2, .model = 2}}, 11);
}

}  // namespace
}  // namespace cohort
