#include "parallel/partition.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "graph/model_builder.h"
#include "parallel/test_lines.h"

namespace cohort {
namespace {

using testing::ElementsAre;

const Node& nodeOf(const Graph& graph, std::string_view name) {
  const auto node = std::ranges::find(graph.nodes, name, &Node::name);
  EXPECT_NE(node, graph.nodes.end()) << name;
  return *node;
}

std::vector<std::string> collectivesOf(const LocalGraph& local) {
  std::vector<std::string> lines;
  for (const Node& node : local.graph.nodes) {
    if (std::holds_alternative<Redistribute>(node.op))
      lines.push_back(fmt::format("{} {}", node.name, text(node.op)));
  }
  return lines;
}

Strategy with(Strategy strategy, std::vector<SplitRule> rules) {
  strategy.rules = std::move(rules);
  return strategy;
}

constexpr LayerSplit kData = LayerSplit::Data;
constexpr LayerSplit kModel = LayerSplit::Model;

// ---- a small network, whole

// The arena: logits.weight 5x12 at 0, .bias at 60; fc.weight 12x512 at 65, .bias at 6209; conv1.weight 32x3x3x3 at 6221, .bias at
// 7085; 7117 floats.
Graph smallNetwork() {
  ModelBuilder b({3, 8, 8}, 5);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 32, .kernel = 3, .padding = Padding::same()});
  x = b.denseRelu("fc", b.maxPool(x, 2, 2), {.outputs = 12});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 5}));
  return b.build();
}

TEST(Partition, ByDataIsTheWholeNetworkOnOwnSamples) {
  const Graph graph = smallNetwork();
  for (const int index : {0, 1}) {
    const LocalGraph local = partition(graph, Strategy::data(), {index, 2});
    EXPECT_EQ(local.graph.nodes, graph.nodes);
    EXPECT_EQ(local.graph.values, graph.values);
    EXPECT_EQ(local.graph.input, graph.input);
    EXPECT_EQ(local.graph.classes, graph.classes);
    EXPECT_EQ(local.graph.grains, std::vector<int>(graph.values.size(), 1));
    EXPECT_EQ(local.place, (GroupPlace{index, 2}));
    EXPECT_THAT(parametersOf(local),
                ElementsAre("logits.weight 5x12 at 0", "logits.bias 5 at 60", "fc.weight 12x512 at 65",
                            "fc.bias 12 at 6209", "conv1.weight 32x3x3x3 at 6221", "conv1.bias 32 at 7085"));
    EXPECT_EQ(local.layout.size(), 7117U);
  }
}

TEST(Partition, ByModelGivesEachWorkerSomeOutputsOfAllSamples) {
  const LocalGraph first = partition(smallNetwork(), Strategy::model(), {0, 2});
  EXPECT_THAT(nodesOf(first),
              ElementsAre("conv1 [0] conv 3x3/1 same 16 -> 16x8x8 x2",                              //
                          "relu2 [1] relu -> 16x8x8 x2",                                            //
                          "pool3 [2] max-pool 2/2 -> 16x4x4 x2",                                    //
                          "flatten4 [3] flatten -> 256x1x1 x2",                                     //
                          "from-conv1 [4] round 0-256 256-512 to round 0-512 0-512 -> 512x1x1 x2",  //
                          "fc [5] dense 6 -> 6x1x1 x2",                                             //
                          "relu6 [6] relu -> 6x1x1 x2",                                             //
                          "from-fc [7] round 0-6 6-12 to round 0-12 0-12 -> 12x1x1 x2",             //
                          "logits [8] dense 2 -> 2x1x1 x2",                                         //
                          "from-logits [9] round 0-2 2-5 to own 0-5 0-5 -> 5x1x1 x1",               //
                          "loss [10] softmax loss -> 1x1x1 x1"));
  EXPECT_EQ(first.graph.grainsIn(0), 2) << "the input is read as a round";
  EXPECT_EQ(first.graph.shapeOf(0), (Shape{3, 8, 8}));
  EXPECT_THAT(parametersOf(first),
              ElementsAre("logits.weight 2x12 at 0 private", "logits.bias 2 at 60 private",
                          "fc.weight 6x512 at 65 private", "fc.bias 6 at 6209 private",
                          "conv1.weight 16x3x3x3 at 6221 private", "conv1.bias 16 at 7085 private"));
  EXPECT_EQ(first.layout.size(), 7117U);

  const LocalGraph second = partition(smallNetwork(), Strategy::model(), {1, 2});
  EXPECT_THAT(nodesOf(second),
              ElementsAre("conv1 [0] conv 3x3/1 same 16 -> 16x8x8 x2",                              //
                          "relu2 [1] relu -> 16x8x8 x2",                                            //
                          "pool3 [2] max-pool 2/2 -> 16x4x4 x2",                                    //
                          "flatten4 [3] flatten -> 256x1x1 x2",                                     //
                          "from-conv1 [4] round 0-256 256-512 to round 0-512 0-512 -> 512x1x1 x2",  //
                          "fc [5] dense 6 -> 6x1x1 x2",                                             //
                          "relu6 [6] relu -> 6x1x1 x2",                                             //
                          "from-fc [7] round 0-6 6-12 to round 0-12 0-12 -> 12x1x1 x2",             //
                          "logits [8] dense 3 -> 3x1x1 x2",                                         //
                          "from-logits [9] round 0-2 2-5 to own 0-5 0-5 -> 5x1x1 x1",               //
                          "loss [10] softmax loss -> 1x1x1 x1"));
  EXPECT_THAT(parametersOf(second),
              ElementsAre("logits.weight 3x12 at 24 private", "logits.bias 3 at 62 private",
                          "fc.weight 6x512 at 3137 private", "fc.bias 6 at 6215 private",
                          "conv1.weight 16x3x3x3 at 6653 private", "conv1.bias 16 at 7101 private"));
}

TEST(Partition, HybridMovesSamplesBeforeTheFirstDenseLayerAndBackBeforeTheLoss) {
  const LocalGraph local = partition(smallNetwork(), Strategy::hybrid(), {1, 3});
  EXPECT_THAT(nodesOf(local),
              ElementsAre("conv1 [0] conv 3x3/1 same 32 -> 32x8x8 x1",                                      //
                          "relu2 [1] relu -> 32x8x8 x1",                                                    //
                          "pool3 [2] max-pool 2/2 -> 32x4x4 x1",                                            //
                          "flatten4 [3] flatten -> 512x1x1 x1",                                             //
                          "from-conv1 [4] own 0-512 0-512 0-512 to round 0-512 0-512 0-512 -> 512x1x1 x3",  //
                          "fc [5] dense 4 -> 4x1x1 x3",                                                     //
                          "relu6 [6] relu -> 4x1x1 x3",                                                     //
                          "from-fc [7] round 0-4 4-8 8-12 to round 0-12 0-12 0-12 -> 12x1x1 x3",            //
                          "logits [8] dense 2 -> 2x1x1 x3",                                                 //
                          "from-logits [9] round 0-1 1-3 3-5 to own 0-5 0-5 0-5 -> 5x1x1 x1",               //
                          "loss [10] softmax loss -> 1x1x1 x1"));
  EXPECT_EQ(local.graph.grainsIn(0), 1) << "the input is the own samples";
  EXPECT_THAT(parametersOf(local),
              ElementsAre("logits.weight 2x12 at 12 private", "logits.bias 2 at 61 private",
                          "fc.weight 4x512 at 2113 private", "fc.bias 4 at 6213 private",
                          "conv1.weight 32x3x3x3 at 6221", "conv1.bias 32 at 7085"));
}

TEST(Partition, RulesMixTheSplits) {
  const LocalGraph local = partition(smallNetwork(), with(Strategy::hybrid(), {{"logits", kData}}), {0, 2});
  EXPECT_THAT(nodesOf(local),
              ElementsAre("conv1 [0] conv 3x3/1 same 32 -> 32x8x8 x1",                          //
                          "relu2 [1] relu -> 32x8x8 x1",                                        //
                          "pool3 [2] max-pool 2/2 -> 32x4x4 x1",                                //
                          "flatten4 [3] flatten -> 512x1x1 x1",                                 //
                          "from-conv1 [4] own 0-512 0-512 to round 0-512 0-512 -> 512x1x1 x2",  //
                          "fc [5] dense 6 -> 6x1x1 x2",                                         //
                          "relu6 [6] relu -> 6x1x1 x2",                                         //
                          "from-fc [7] round 0-6 6-12 to own 0-12 0-12 -> 12x1x1 x1",           //
                          "logits [8] dense 5 -> 5x1x1 x1",                                     //
                          "loss [9] softmax loss -> 1x1x1 x1"));
  EXPECT_THAT(parametersOf(local), ElementsAre("logits.weight 5x12 at 0", "logits.bias 5 at 60",
                                               "fc.weight 6x512 at 65 private", "fc.bias 6 at 6209 private",
                                               "conv1.weight 32x3x3x3 at 6221", "conv1.bias 32 at 7085"));

  EXPECT_THAT(collectivesOf(partition(smallNetwork(), with(Strategy::data(), {{"conv1", kModel}}), {0, 2})),
              ElementsAre("from-conv1 round 0-256 256-512 to own 0-512 0-512"))
      << "pooling and flattening stay where the convolution is";
}

TEST(Partition, ConvolutionsAreCutBetweenBlocksOfSixteenChannels) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId x = b.globalAveragePool(b.conv("a", b.input(), {.outputs = 48}));
  b.softmaxLoss("loss", b.dense("logits", b.dense("fc", x, {.outputs = 48}), {.outputs = 4}));
  EXPECT_THAT(collectivesOf(partition(b.build(), Strategy::model(), {0, 2})),
              ElementsAre("from-a round 0-16 16-48 to round 0-48 0-48",   //
                          "from-fc round 0-24 24-48 to round 0-48 0-48",  //
                          "from-logits round 0-2 2-4 to own 0-4 0-4"));
}

TEST(Partition, AGroupOfOneHasTheWholeNetworkAndNothingPrivate) {
  const LocalGraph local = partition(smallNetwork(), Strategy::model(), {0, 1});
  EXPECT_EQ(std::ranges::count(local.isPrivate, true), 0);
  EXPECT_EQ(local.graph.grains, std::vector<int>(local.graph.values.size(), 1));
  EXPECT_EQ(local.layout.weightCount(), 7117U);
}

TEST(Partition, RefusesWhatCannotBeDivided) {
  EXPECT_BEGINS(errorOf<UsageError>([] {
                  partition(smallNetwork(), Strategy::model(), {0, 6});
                }),
                "layer logits has 5 outputs, too few to divide over 6 workers");
  EXPECT_DEATH(partition(smallNetwork(), Strategy::model(), {2, 2}), "a worker is one of its group");
}

// ---- operators that look at several values or channels

// Two 1x1 convolutions "a" and "b" of the input, and what `body` makes of them.
using Body = std::function<ValueId(ModelBuilder&, ValueId a, ValueId b)>;
Graph twoBranches(int outputsA, int outputsB, const Body& body) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId left = b.conv("a", b.input(), {.outputs = outputsA});
  const ValueId right = b.conv("b", b.input(), {.outputs = outputsB});
  b.softmaxLoss("loss", b.dense("logits", b.globalAveragePool(body(b, left, right)), {.outputs = 4}));
  return b.build();
}

ValueId concatThenC(ModelBuilder& b, ValueId left, ValueId right) {
  return b.conv("c", b.relu(b.concat({left, right})), {.outputs = 16});
}

TEST(Partition, ConcatPutsAWorkersPartsTogetherWithoutMovingThem) {
  const LocalGraph local = partition(twoBranches(16, 32, concatThenC), Strategy::model(), {1, 2});
  EXPECT_THAT(nodesOf(local),
              ElementsAre("a [0] conv 1x1/1 8 -> 8x4x4 x2",                                               //
                          "b [0] conv 1x1/1 16 -> 16x4x4 x2",                                             //
                          "concat3 [1,2] concat -> 24x4x4 x2",                                            //
                          "relu4 [3] relu -> 24x4x4 x2",                                                  //
                          "from-concat3 [4] round 0-8+16-32 8-16+32-48 to round 0-48 0-48 -> 48x4x4 x2",  //
                          "c [5] conv 1x1/1 8 -> 8x4x4 x2",                                               //
                          "pool6 [6] global average-pool -> 8x1x1 x2",                                    //
                          "from-c [7] round 0-8 8-16 to round 0-16 0-16 -> 16x1x1 x2",                    //
                          "logits [8] dense 2 -> 2x1x1 x2",                                               //
                          "from-logits [9] round 0-2 2-4 to own 0-4 0-4 -> 4x1x1 x1",                     //
                          "loss [10] softmax loss -> 1x1x1 x1"));
}

TEST(Partition, ConcatWithAnOwnBranchIsOnOwnSamples) {
  const LocalGraph local =
      partition(twoBranches(16, 32, concatThenC), with(Strategy::model(), {{"b", kData}}), {0, 2});
  EXPECT_THAT(nodesOf(local),
              ElementsAre("a [0] conv 1x1/1 8 -> 8x4x4 x2",                                  //
                          "from-input [0] round 0-3 0-3 to own 0-3 0-3 -> 3x4x4 x1",         //
                          "b [2] conv 1x1/1 32 -> 32x4x4 x1",                                //
                          "from-a [1] round 0-8 8-16 to own 0-16 0-16 -> 16x4x4 x1",         //
                          "concat3 [4,3] concat -> 48x4x4 x1",                               //
                          "relu4 [5] relu -> 48x4x4 x1",                                     //
                          "from-concat3 [6] own 0-48 0-48 to round 0-48 0-48 -> 48x4x4 x2",  //
                          "c [7] conv 1x1/1 8 -> 8x4x4 x2",                                  //
                          "pool6 [8] global average-pool -> 8x1x1 x2",                       //
                          "from-c [9] round 0-8 8-16 to round 0-16 0-16 -> 16x1x1 x2",       //
                          "logits [10] dense 2 -> 2x1x1 x2",                                 //
                          "from-logits [11] round 0-2 2-4 to own 0-4 0-4 -> 4x1x1 x1",       //
                          "loss [12] softmax loss -> 1x1x1 x1"));
}

// Wide images, so that flattening multiplies channels.
TEST(Partition, FlatteningDividedPartsKeepsThemWhereTheyAre) {
  ModelBuilder b({3, 2, 3}, 4);
  const ValueId left = b.conv("a", b.input(), {.outputs = 2});
  const ValueId right = b.conv("b", b.input(), {.outputs = 4});
  b.softmaxLoss("loss", b.dense("logits", b.concat({left, right}), {.outputs = 4}));
  EXPECT_THAT(collectivesOf(partition(b.build(), Strategy::model(), {0, 2})),
              ElementsAre("from-concat3 round 0-6+12-24 6-12+24-36 to round 0-36 0-36",  //
                          "from-logits round 0-2 2-4 to own 0-4 0-4"));
}

ValueId sum(ModelBuilder& b, ValueId left, ValueId right) {
  return b.add({left, right});
}

TEST(Partition, EqualSummandsAreAddedWhereTheyAre) {
  const LocalGraph local = partition(twoBranches(16, 16, sum), Strategy::model(), {0, 2});
  EXPECT_EQ(nodesOf(local)[2], "add3 [1,2] add -> 8x4x4 x2");
}

TEST(Partition, AnOwnSummandComesToTheDividedOne) {
  const LocalGraph second =
      partition(twoBranches(16, 16, sum), with(Strategy::model(), {{"b", kData}}), {0, 2});
  EXPECT_EQ(nodesOf(second)[3], "from-b [3] own 0-16 0-16 to round 0-8 8-16 -> 8x4x4 x2");
  EXPECT_EQ(nodesOf(second)[4], "add3 [1,4] add -> 8x4x4 x2");
  const LocalGraph first =
      partition(twoBranches(16, 16, sum), with(Strategy::model(), {{"a", kData}}), {0, 2});
  EXPECT_EQ(nodesOf(first)[3], "from-a [2] own 0-16 0-16 to round 0-8 8-16 -> 8x4x4 x2");
  EXPECT_EQ(nodesOf(first)[4], "add3 [4,3] add -> 8x4x4 x2");
}

TEST(Partition, ANarrowerSummandIsAddedOnOwnSamples) {
  const LocalGraph local = partition(twoBranches(16, 8, sum), Strategy::model(), {0, 2});
  EXPECT_EQ(nodesOf(local)[2], "from-a [1] round 0-8 8-16 to own 0-16 0-16 -> 16x4x4 x1");
  EXPECT_EQ(nodesOf(local)[3], "from-b [2] round 0-4 4-8 to own 0-8 0-8 -> 8x4x4 x1");
  EXPECT_EQ(nodesOf(local)[4], "add3 [3,4] add -> 16x4x4 x1");
}

TEST(Partition, BatchNormHasItsChannelsParametersAndStatistics) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId x = b.relu(b.batchNorm("norm", b.conv("a", b.input(), {.outputs = 32, .bias = false})));
  b.softmaxLoss("loss", b.dense("logits", b.globalAveragePool(x), {.outputs = 4, .bias = false}));
  const Graph graph = b.build();
  const LocalGraph divided = partition(graph, with(Strategy::model(), {{"logits", kData}}), {1, 2});
  EXPECT_EQ(nodesOf(divided)[1], "norm [1] batch norm -> 16x4x4 x2");
  EXPECT_THAT(parametersOf(divided),
              ElementsAre("logits.weight 4x32 at 0", "norm.weight 16 at 144 private",
                          "norm.bias 16 at 176 private", "norm.running_mean 16 at 208 private",
                          "norm.running_var 16 at 240 private", "a.weight 16x3x1x1 at 304 private"));
  const LocalGraph own = partition(graph, Strategy::hybrid(), {1, 2});
  EXPECT_EQ(nodesOf(own)[1], "norm [1] batch norm -> 32x4x4 x1");
  EXPECT_THAT(parametersOf(own), ElementsAre("logits.weight 2x32 at 64 private", "norm.weight 32 at 128",
                                             "norm.bias 32 at 160", "norm.running_mean 32 at 192",
                                             "norm.running_var 32 at 224", "a.weight 32x3x1x1 at 256"));
}

// A worker's channels would lie in two places of each parameter.
TEST(Partition, BatchNormAndDropoutOfSeveralPartsAreOnOwnSamples) {
  const LocalGraph norm = partition(twoBranches(16, 16,
                                                [](ModelBuilder& b, ValueId left, ValueId right) {
                                                  return b.batchNorm("norm", b.concat({left, right}));
                                                }),
                                    Strategy::model(), {1, 2});
  EXPECT_EQ(nodesOf(norm)[3], "from-concat3 [3] round 0-8+16-24 8-16+24-32 to own 0-32 0-32 -> 32x4x4 x1");
  EXPECT_EQ(nodesOf(norm)[4], "norm [4] batch norm -> 32x4x4 x1");
  const LocalGraph dropped = partition(twoBranches(16, 16,
                                                   [](ModelBuilder& b, ValueId left, ValueId right) {
                                                     return b.dropout(b.concat({left, right}), 0.5f);
                                                   }),
                                       Strategy::model(), {1, 2});
  EXPECT_EQ(nodesOf(dropped)[4], "dropout4 [4] dropout 0.5 -> 32x4x4 x1");
  EXPECT_EQ(std::get<Dropout>(nodeOf(dropped.graph, "dropout4").op).firstChannel, 0);
}

TEST(Partition, LrnNeedsNeighbouringChannelsAndSoOwnSamples) {
  const LocalGraph local = partition(twoBranches(16, 16,
                                                 [](ModelBuilder& b, ValueId left, ValueId right) {
                                                   return b.add({b.lrn(left, {.size = 3}), right});
                                                 }),
                                     Strategy::model(), {0, 2});
  EXPECT_EQ(nodesOf(local)[2], "from-a [1] round 0-8 8-16 to own 0-16 0-16 -> 16x4x4 x1");
  EXPECT_EQ(nodesOf(local)[3], "lrn3 [3] lrn 3 -> 16x4x4 x1");
  EXPECT_EQ(nodesOf(local)[4], "from-a-2 [4] own 0-16 0-16 to round 0-8 8-16 -> 8x4x4 x2");
}

TEST(Partition, DropoutKnowsItsFirstChannel) {
  ModelBuilder b({3, 4, 4}, 4);
  ValueId x = b.dropout(b.conv("a", b.input(), {.outputs = 32}), 0.2f);
  x = b.dropout(b.dense("fc", x, {.outputs = 10}), 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}));
  const Graph graph = b.build();
  const auto firstChannels = [&](const Strategy& strategy) {
    std::vector<std::int64_t> firsts;
    for (int index = 0; index < 3; ++index) {
      const Graph local = partition(graph, strategy, {index, 3}).graph;
      for (const char* name : {"dropout2", "dropout5"}) {
        const auto& op = std::get<Dropout>(nodeOf(local, name).op);
        EXPECT_EQ(op.rate, name == std::string("dropout2") ? 0.2f : 0.5f);
        firsts.push_back(op.firstChannel);
      }
    }
    return firsts;
  };
  EXPECT_THAT(firstChannels(Strategy::data()), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(firstChannels(Strategy::hybrid()), ElementsAre(0, 0, 0, 3, 0, 6));
  EXPECT_THAT(firstChannels(Strategy::model()), ElementsAre(0, 0, 10, 3, 21, 6));
}

// ---- grouped convolutions

Graph grouped(int groups) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId x = b.conv("g", b.conv("f", b.input(), {.outputs = 8}), {.outputs = 8, .groups = groups});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}));
  return b.build();
}

TEST(Partition, AGroupOfAConvolutionReadsItsOwnChannelsOnly) {
  const LocalGraph local = partition(grouped(2), Strategy::model(), {1, 2});
  EXPECT_EQ(nodesOf(local)[0], "f [0] conv 1x1/1 4 -> 4x4x4 x2");
  EXPECT_EQ(nodesOf(local)[1], "g [1] conv 1x1/1 4 -> 4x4x4 x2")
      << "nothing moves, and its one group needs no name";
  // Before it: logits 4x128 and 4.
  EXPECT_EQ(parametersOf(local)[2], "g.weight 4x4x1x1 at 532 private");
}

TEST(Partition, AWorkerMayHaveSeveralGroups) {
  const LocalGraph local = partition(grouped(4), Strategy::model(), {1, 2});
  EXPECT_EQ(nodesOf(local)[1], "g [1] conv 1x1/1 4 groups 2 -> 4x4x4 x2");
  EXPECT_EQ(parametersOf(local)[2], "g.weight 4x2x1x1 at 524 private");
}

TEST(Partition, WorkersMayShareAGroup) {
  EXPECT_THAT(collectivesOf(partition(grouped(2), Strategy::model(), {0, 3})),
              ElementsAre("from-f round 0-2 2-5 5-8 to round 0-4 4-8 4-8",              //
                          "from-g round 0-64 64-96 96-128 to round 0-128 0-128 0-128",  //
                          "from-logits round 0-1 1-2 2-4 to own 0-4 0-4 0-4"));
  const std::string expected[3] = {"g [2] conv 1x1/1 4 -> 4x4x4 x3", "g [2] conv 1x1/1 2 -> 2x4x4 x3",
                                   "g [2] conv 1x1/1 2 -> 2x4x4 x3"};
  const std::string weights[3] = {"g.weight 4x4x1x1 at 516 private", "g.weight 2x4x1x1 at 532 private",
                                  "g.weight 2x4x1x1 at 540 private"};
  for (int index = 0; index < 3; ++index) {
    const LocalGraph local = partition(grouped(2), Strategy::model(), {index, 3});
    EXPECT_EQ(nodesOf(local)[2], expected[index]);
    EXPECT_EQ(parametersOf(local)[2], weights[index]);
  }
}

// ---- what moves, and that all agree about it

TEST(Partition, AValueMovesOnceForAllWhoNeedItTheSameWay) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId x = b.flatten(b.conv("a", b.input(), {.outputs = 4}));
  const ValueId left = b.dense("left", x, {.outputs = 6});
  const ValueId right = b.dense("right", x, {.outputs = 6});
  b.softmaxLoss("aux", b.dense("aux.logits", b.relu(x), {.outputs = 4}));
  b.softmaxLoss("loss", b.dense("logits", b.add({left, right}), {.outputs = 4}));
  const LocalGraph local = partition(b.build(), with(Strategy::hybrid(), {{".*logits", kData}}), {0, 2});
  EXPECT_THAT(collectivesOf(local), ElementsAre("from-a own 0-64 0-64 to round 0-64 0-64",  //
                                                "from-add8 round 0-3 3-6 to own 0-6 0-6"));
  const ValueId moved = nodeOf(local.graph, "from-a").output;
  EXPECT_THAT(nodeOf(local.graph, "left").inputs, ElementsAre(moved));
  EXPECT_THAT(nodeOf(local.graph, "right").inputs, ElementsAre(moved));
}

TEST(Partition, AValueMovesTwiceForTwoNeeds) {
  ModelBuilder b({3, 4, 4}, 4);
  const ValueId x = b.conv("a", b.input(), {.outputs = 8});
  const ValueId left = b.conv("left", x, {.outputs = 8});
  const ValueId right = b.lrn(x, {.size = 3});
  const ValueId again = b.conv("again", x, {.outputs = 8, .kernel = 3, .padding = Padding::same()});
  b.softmaxLoss("loss", b.dense("logits", b.concat({left, right, again}), {.outputs = 4}));
  const LocalGraph local = partition(b.build(), Strategy::model(), {0, 2});
  const std::vector<std::string> lines = collectivesOf(local);
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[0], "from-a round 0-4 4-8 to round 0-8 0-8");
  EXPECT_EQ(lines[1], "from-a-2 round 0-4 4-8 to own 0-8 0-8");
  EXPECT_EQ(std::ranges::count_if(lines,
                                  [](const std::string& line) {
                                    return line.starts_with("from-a ") || line.starts_with("from-a-");
                                  }),
            2);
  EXPECT_EQ(nodeOf(local.graph, "again").inputs, nodeOf(local.graph, "left").inputs);
}

// One reader by model makes the whole input a round; others take their own samples of it.
TEST(Partition, TheInputIsARoundWhereALayerByModelReadsIt) {
  const Graph graph = twoBranches(16, 16, sum);
  EXPECT_EQ(partition(graph, Strategy::data(), {0, 2}).graph.grainsIn(0), 1);
  EXPECT_EQ(partition(graph, Strategy::hybrid(), {0, 2}).graph.grainsIn(0), 1);
  const LocalGraph one = partition(graph, with(Strategy::data(), {{"b", kModel}}), {0, 2});
  EXPECT_EQ(one.graph.grainsIn(0), 2);
  EXPECT_EQ(nodesOf(one)[0], "from-input [0] round 0-3 0-3 to own 0-3 0-3 -> 3x4x4 x1");
  EXPECT_EQ(nodesOf(one)[1], "a [1] conv 1x1/1 16 -> 16x4x4 x1");
  EXPECT_EQ(nodesOf(one)[2], "b [0] conv 1x1/1 8 -> 8x4x4 x2");
}

// Operators without weights do not compute on everybody's samples.
TEST(Partition, ACopyOfTheInputIsOwnSamplesForOthers) {
  ModelBuilder b({4, 4, 4}, 4);
  const ValueId pooled = b.maxPool(b.relu(b.dropout(b.input(), 0.1f)), 2, 2);
  const ValueId x = b.concat({b.conv("a", b.input(), {.outputs = 8, .kernel = 2, .stride = 2}), pooled});
  b.softmaxLoss("loss", b.dense("logits", b.add({x, x}), {.outputs = 4}));
  const LocalGraph local = partition(b.build(), with(Strategy::data(), {{"a", kModel}}), {0, 2});
  EXPECT_EQ(nodesOf(local)[0], "from-input [0] round 0-4 0-4 to own 0-4 0-4 -> 4x4x4 x1");
  EXPECT_EQ(nodesOf(local)[1], "dropout1 [1] dropout 0.1 -> 4x4x4 x1");
  EXPECT_EQ(nodesOf(local)[3], "pool3 [3] max-pool 2/2 -> 4x2x2 x1");
}

// Every operator, in all the ways above.
Graph everything() {
  ModelBuilder b({4, 8, 8}, 6);
  ValueId x = b.convRelu("stem", b.input(), {.outputs = 33, .kernel = 3, .padding = Padding::same()});
  x = b.relu(b.batchNorm("norm", x));
  const ValueId left = b.conv("left", x, {.outputs = 12});
  const ValueId right =
      b.conv("right", b.lrn(x, {.size = 3}), {.outputs = 12, .kernel = 3, .padding = Padding::same()});
  const ValueId both = b.concat({left, right});
  x = b.conv("grouped", both, {.outputs = 24, .kernel = 3, .padding = Padding::same(), .groups = 2});
  x = b.relu(b.add({x, both}));
  x = b.add({x, left});
  b.softmaxLoss("aux", b.dense("aux.logits", b.globalAveragePool(x), {.outputs = 6}), {.weight = 0.3f});
  x = b.dropout(b.denseRelu("hidden", b.maxPool(b.concat({x, left}), 2, 2), {.outputs = 11}), 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 6}));
  return b.build();
}

std::vector<Strategy> strategies() {
  return {Strategy::data(),
          Strategy::model(),
          Strategy::hybrid(),
          {kModel, kData, {}},
          with(Strategy::model(), {{"left", kData}, {"hidden", kData}}),
          with(Strategy::hybrid(), {{"grouped", kModel}, {"aux.*", kData}})};
}

// A collective under way on one worker must be under way on all, under the same tag and with the same values.
TEST(Partition, AllWorkersHaveTheSameNodesAndCollectives) {
  const Graph graph = everything();
  for (const Strategy& strategy : strategies()) {
    for (int count = 2; count <= 5; ++count) {
      SCOPED_TRACE(fmt::format("{}, {} workers", toText(strategy), count));
      const LocalGraph first = partition(graph, strategy, {0, count});
      for (int index = 1; index < count; ++index) {
        const LocalGraph other = partition(graph, strategy, {index, count});
        EXPECT_EQ(other.graph.grains, first.graph.grains);
        ASSERT_EQ(other.graph.nodes.size(), first.graph.nodes.size());
        for (std::size_t i = 0; i < first.graph.nodes.size(); ++i) {
          const Node& here = first.graph.nodes[i];
          const Node& there = other.graph.nodes[i];
          EXPECT_EQ(here.name, there.name);
          EXPECT_EQ(here.inputs, there.inputs);
          EXPECT_EQ(here.op.index(), there.op.index());
          EXPECT_TRUE(!std::holds_alternative<Redistribute>(here.op) || here == there) << here.name;
        }
      }
    }
  }
}

// Every float of the arena is everybody's, or exactly one worker's.
TEST(Partition, ParametersAreEverybodysOrOneWorkers) {
  const Graph graph = everything();
  const ParameterLayout whole = parameterLayout(graph);
  for (const Strategy& strategy : strategies()) {
    for (int count = 1; count <= 5; ++count) {
      SCOPED_TRACE(fmt::format("{}, {} workers", toText(strategy), count));
      std::vector<int> owners(whole.size(), 0);
      for (int index = 0; index < count; ++index) {
        const LocalGraph local = partition(graph, strategy, {index, count});
        ASSERT_EQ(local.layout.size(), whole.size());
        ASSERT_EQ(local.layout.parameters().size(), whole.parameters().size());
        for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
          const Parameter& part = local.layout.parameters()[i];
          const Parameter& all = whole.parameters()[i];
          EXPECT_EQ(part.name, all.name);
          EXPECT_EQ(part.kind, all.kind);
          EXPECT_EQ(part.statisticDecay, all.statisticDecay);
          EXPECT_GE(part.offset, all.offset);
          EXPECT_LE(part.offset + part.size, all.offset + all.size);
          for (std::size_t at = part.offset; at < part.offset + part.size; ++at) {
            owners[at] += local.isPrivate[i] ? count : 1;
          }
        }
      }
      EXPECT_TRUE(std::ranges::all_of(owners, [&](int weight) { return weight == count; }));
    }
  }
}

// What a node computes fits what it reads, on every worker.
TEST(Partition, EveryValueHasTheShapeThatItsSpreadSays) {
  const Graph graph = everything();
  for (const Strategy& strategy : strategies()) {
    for (int index = 0; index < 3; ++index) {
      const Graph local = partition(graph, strategy, {index, 3}).graph;
      for (const Node& node : local.nodes) {
        SCOPED_TRACE(fmt::format("{}, worker {}, {}", toText(strategy), index, node.name));
        const Shape& output = local.shapeOf(node.output);
        const Shape& input = local.shapeOf(node.inputs.front());
        const auto* moved = std::get_if<Redistribute>(&node.op);
        if (moved != nullptr) {
          EXPECT_NE(moved->from, moved->to);
          EXPECT_EQ(input.channels, channelsOf(moved->from, index));
          EXPECT_EQ(output.channels, channelsOf(moved->to, index));
          EXPECT_EQ(local.grainsIn(node.inputs.front()), grainsOf(moved->from));
          EXPECT_EQ(local.grainsIn(node.output), grainsOf(moved->to));
          continue;
        }
        for (const ValueId in : node.inputs) EXPECT_EQ(local.grainsIn(in), local.grainsIn(node.output));
        if (const auto* conv = std::get_if<Conv>(&node.op)) {
          EXPECT_EQ(output.channels, conv->outputs);
          EXPECT_EQ(input.channels % conv->groups, 0);
          EXPECT_EQ(output.channels % conv->groups, 0);
        }
        EXPECT_TRUE(!std::holds_alternative<SoftmaxLoss>(node.op) || local.grainsIn(node.output) == 1);
      }
    }
  }
}

}  // namespace
}  // namespace cohort
