#include "parallel/strategy.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "graph/model_builder.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr LayerSplit kData = LayerSplit::Data;
constexpr LayerSplit kModel = LayerSplit::Model;

// Of the names that rules are about: conv1, conv10, fc6, fc7.
Graph fourLayers() {
  ModelBuilder b({3, 8, 8}, 10);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 6, .kernel = 3});
  x = b.conv("conv10", x, {.outputs = 4, .kernel = 3});
  x = b.denseRelu("fc6", x, {.outputs = 20});
  b.softmaxLoss("loss", b.dense("fc7", x, {.outputs = 10}));
  return b.build();
}

LayerSplit splitOf(const Graph& graph, const Strategy& strategy, std::string_view layer) {
  const auto node = std::ranges::find(graph.nodes, layer, &Node::name);
  return splitsOf(graph, strategy).at(static_cast<std::size_t>(node->id));
}

// conv1, conv10, fc6, fc7.
std::vector<LayerSplit> splitsByName(const Strategy& strategy) {
  const Graph graph = fourLayers();
  std::vector<LayerSplit> splits;
  for (const char* name : {"conv1", "conv10", "fc6", "fc7"}) splits.push_back(splitOf(graph, strategy, name));
  return splits;
}

// ---- words

TEST(ParseStrategy, KnowsThreeWords) {
  EXPECT_EQ(parseStrategy("data", "--parallel"), (Strategy{kData, kData, {}}));
  EXPECT_EQ(parseStrategy("model", "--parallel"), (Strategy{kModel, kModel, {}}));
  EXPECT_EQ(parseStrategy("hybrid", "--parallel"), (Strategy{kData, kModel, {}}));
}

TEST(ParseStrategy, WhatItPrintsItReads) {
  for (const char* word : {"data", "model", "hybrid"})
    EXPECT_EQ(toText(parseStrategy(word, "--parallel")), word);
}

TEST(ParseStrategy, RefusesOtherWordsAndNamesTheFlag) {
  for (const char* word : {"", "Data", "data ", "hybrid,conv1=model", "tensor"}) {
    EXPECT_EQ(errorOf<UsageError>([&] { parseStrategy(word, "--parallel"); }),
              fmt::format("--parallel is data, model or hybrid, not '{}'", word));
  }
}

TEST(StrategyText, HasItsRulesInOrder) {
  Strategy strategy = Strategy::hybrid();
  strategy.rules = {{"conv1", kModel}, {"fc[67]", kData}};
  EXPECT_EQ(toText(strategy), "hybrid, conv1=model, fc[67]=data");
  EXPECT_EQ(toText(Strategy{kModel, kData, {}}), "convolutions by model");
}

TEST(ParseSplitRule, ReadsANameOrAnExpression) {
  EXPECT_EQ(parseSplitRule("conv1=model", "--split"), (SplitRule{"conv1", kModel}));
  EXPECT_EQ(parseSplitRule("fc.*=data", "--split"), (SplitRule{"fc.*", kData}));
  EXPECT_EQ(parseSplitRule("conv(?=10).*=model", "--split"), (SplitRule{"conv(?=10).*", kModel}))
      << "the last equals sign counts";
}

TEST(ParseSplitRule, WhatAStrategyPrintsOfItItReads) {
  for (const SplitRule& rule : {SplitRule{"conv1", kModel}, SplitRule{"a=b|c", kData}}) {
    const std::string text = toText(Strategy{kData, kData, {rule}});
    ASSERT_TRUE(text.starts_with("data, "));
    EXPECT_EQ(parseSplitRule(std::string_view(text).substr(6), "--split"), rule);
  }
}

TEST(ParseSplitRule, RefusesWhatIsNoRuleAndNamesTheFlag) {
  for (const char* text :
       {"", "=", "=model", "conv1", "model", "conv1=", "conv1=both", "conv1=Model", "conv1=model "}) {
    EXPECT_EQ(
        errorOf<UsageError>([&] { parseSplitRule(text, "--split"); }),
        fmt::format("--split takes LAYER=data or LAYER=model, where LAYER is a name or a regular expression, "
                    "not '{}'",
                    text));
  }
  for (const char* pattern : {"conv(", "[", "*"}) {
    EXPECT_EQ(errorOf<UsageError>([&] { parseSplitRule(fmt::format("{}=model", pattern), "--split"); }),
              fmt::format("--split: '{}' is no regular expression", pattern));
  }
}

TEST(ParseMesh, ReadsOneOrBothNumbersInAnyOrder) {
  EXPECT_EQ(parseMesh("data=2,model=3", "--mesh"), (Mesh{2, 3}));
  EXPECT_EQ(parseMesh("model=3,data=2", "--mesh"), (Mesh{2, 3}));
  EXPECT_EQ(parseMesh("model=4", "--mesh"), (Mesh{1, 4}));
  EXPECT_EQ(parseMesh("data=4096", "--mesh"), (Mesh{4096, 1}));
  EXPECT_EQ(parseMesh("data=2,model=3", "--mesh").workers(), 6);
}

TEST(ParseMesh, WhatItPrintsItReads) {
  for (const Mesh& mesh : {Mesh{1, 1}, Mesh{2, 3}, Mesh{4096, 4096}}) {
    EXPECT_EQ(parseMesh(toText(mesh), "--mesh"), mesh);
  }
  EXPECT_EQ(toText(Mesh{2, 3}), "data=2,model=3");
}

TEST(ParseMesh, RefusesEverythingElseAndNamesTheFlag) {
  for (const char* text : {"",
                           ",",
                           "data",
                           "data=",
                           "data=0",
                           "data=-1",
                           "data=+1",
                           "data= 1",
                           "data=1 ",
                           "data=2x",
                           "data=0x2",
                           "data=1.5",
                           "data=4097",
                           "data=99999999999",
                           "model=0",
                           "data=2,",
                           ",data=2",
                           "data=2,,model=2",
                           "data=2,data=2",
                           "model=2,model=2",
                           "data=2,model=2,",
                           "data=2,model=2,data=1",
                           "data=2;model=2",
                           "rows=2",
                           "2x2",
                           "DATA=2"}) {
    EXPECT_EQ(
        errorOf<UsageError>([&] { parseMesh(text, "--mesh"); }),
        fmt::format("--mesh takes data=D,model=M with numbers from 1 on, such as data=2,model=2, not '{}'",
                    text));
  }
}

// ---- which layers

TEST(Splits, FollowTheKindOfTheLayer) {
  EXPECT_THAT(splitsByName(Strategy::data()), ElementsAre(kData, kData, kData, kData));
  EXPECT_THAT(splitsByName(Strategy::model()), ElementsAre(kModel, kModel, kModel, kModel));
  EXPECT_THAT(splitsByName(Strategy::hybrid()), ElementsAre(kData, kData, kModel, kModel));
}

TEST(Splits, ARuleIsAboutWholeNames) {
  Strategy strategy = Strategy::data();
  strategy.rules = {{"conv1", kModel}, {"fc", kModel}};
  EXPECT_THAT(splitsByName(strategy), ElementsAre(kModel, kData, kData, kData));
  strategy.rules = {{"conv1.*", kModel}, {"fc[0-6]", kModel}};
  EXPECT_THAT(splitsByName(strategy), ElementsAre(kModel, kModel, kModel, kData));
}

TEST(Splits, TheFirstRuleThatFitsCounts) {
  Strategy strategy = Strategy::hybrid();
  strategy.rules = {{"fc7", kData}, {"fc.*", kModel}, {".*", kData}};
  EXPECT_THAT(splitsByName(strategy), ElementsAre(kData, kData, kModel, kData));
  std::ranges::reverse(strategy.rules);
  EXPECT_THAT(splitsByName(strategy), ElementsAre(kData, kData, kData, kData));
}

TEST(Splits, OtherNodesHaveNoSay) {
  const Graph graph = fourLayers();
  Strategy strategy = Strategy::data();
  strategy.rules = {{".*", kModel}};
  const std::vector<LayerSplit> splits = splitsOf(graph, strategy);
  ASSERT_EQ(splits.size(), graph.nodes.size());
  for (const Node& node : graph.nodes) {
    const bool isLayer = std::holds_alternative<Conv>(node.op) || std::holds_alternative<Dense>(node.op);
    EXPECT_EQ(splits[static_cast<std::size_t>(node.id)], isLayer ? kModel : kData) << node.name;
  }
}

TEST(Splits, ANetworkIsDividedWhereOneLayerIs) {
  Strategy strategy = Strategy::data();
  EXPECT_FALSE(isDivided(fourLayers(), strategy));
  strategy.rules = {{"conv10", kModel}};
  EXPECT_TRUE(isDivided(fourLayers(), strategy));
  strategy = Strategy::hybrid();
  strategy.rules = {{"fc.", kData}};
  EXPECT_FALSE(isDivided(fourLayers(), strategy));
}

// ---- who can be divided

TEST(RequireDivisible, TakesALayerWithAnOutputForEachWorker) {
  EXPECT_NO_THROW(requireDivisible(fourLayers(), Strategy::model(), 4));
  EXPECT_NO_THROW(requireDivisible(fourLayers(), Strategy::data(), 1000));
  EXPECT_NO_THROW(requireDivisible(fourLayers(), Strategy::hybrid(), 10));
}

TEST(RequireDivisible, NamesTheLayerThatIsTooNarrowAndWhatKeepsItWhole) {
  EXPECT_EQ(errorOf<UsageError>([] { requireDivisible(fourLayers(), Strategy::model(), 5); }),
            "layer conv10 has 4 outputs, too few to divide over 5 workers; keep it whole (--parallel with "
            "--split 'conv10=data'), or use fewer workers (--mesh)");
  EXPECT_EQ(errorOf<UsageError>([] { requireDivisible(fourLayers(), Strategy::hybrid(), 11); }),
            "layer fc7 has 10 outputs, too few to divide over 11 workers; keep it whole (--parallel with "
            "--split 'fc7=data'), or use fewer workers (--mesh)");
  Strategy advised = Strategy::model();
  advised.rules = {{"conv10", kData}};
  EXPECT_NO_THROW(requireDivisible(fourLayers(), advised, 5)) << "its advice helps";
}

TEST(RequireDivisible, RefusesARuleThatFitsNoLayer) {
  Strategy strategy = Strategy::data();
  strategy.rules = {{"fc.", kModel}, {"fc", kModel}};
  EXPECT_EQ(errorOf<UsageError>([&] { requireDivisible(fourLayers(), strategy, 2); }),
            "no layer that can be split is called 'fc'; there are conv1, conv10, fc6, fc7");
  strategy.rules = {{"loss", kData}};
  EXPECT_BEGINS(errorOf<UsageError>([&] { requireDivisible(fourLayers(), strategy, 2); }),
                "no layer that can be split is called 'loss'");
}

TEST(RequireDivisible, ListsNotMoreThanTwelveLayers) {
  ModelBuilder b({3, 1, 1}, 2);
  ValueId x = b.input();
  for (int i = 1; i <= 13; ++i) x = b.dense(fmt::format("d{}", i), x, {.outputs = 2});
  b.softmaxLoss("loss", x);
  const Graph graph = b.build();
  Strategy strategy = Strategy::data();
  strategy.rules = {{"none", kModel}};
  EXPECT_EQ(errorOf<UsageError>([&] { requireDivisible(graph, strategy, 2); }),
            "no layer that can be split is called 'none'; there are d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, "
            "d11, d12, ...");
}

// ---- how channels divide

TEST(DivideChannels, InWholeBlocksWhereTheseSuffice) {
  EXPECT_THAT(divideChannels(96, 4, 1, 16), ElementsAre(ChannelRange{0, 16}, ChannelRange{16, 48},
                                                        ChannelRange{48, 64}, ChannelRange{64, 96}));
  EXPECT_THAT(divideChannels(96, 5, 1, 16),
              ElementsAre(ChannelRange{0, 16}, ChannelRange{16, 32}, ChannelRange{32, 48},
                          ChannelRange{48, 64}, ChannelRange{64, 96}));
  EXPECT_THAT(divideChannels(40, 3, 1, 16),
              ElementsAre(ChannelRange{0, 16}, ChannelRange{16, 32}, ChannelRange{32, 40}))
      << "the last block need not be whole";
}

TEST(DivideChannels, ChannelByChannelWhereThereAreTooFewBlocks) {
  EXPECT_THAT(
      divideChannels(96, 7, 1, 16),
      ElementsAre(ChannelRange{0, 13}, ChannelRange{13, 27}, ChannelRange{27, 41}, ChannelRange{41, 54},
                  ChannelRange{54, 68}, ChannelRange{68, 82}, ChannelRange{82, 96}));
  EXPECT_THAT(divideChannels(3, 3, 1, 16),
              ElementsAre(ChannelRange{0, 1}, ChannelRange{1, 2}, ChannelRange{2, 3}));
}

TEST(DivideChannels, DenseOutputsOneByOne) {
  EXPECT_THAT(divideChannels(10, 3),
              ElementsAre(ChannelRange{0, 3}, ChannelRange{3, 6}, ChannelRange{6, 10}));
  EXPECT_THAT(divideChannels(10, 1), ElementsAre(ChannelRange{0, 10}));
}

TEST(DivideChannels, GroupsStayWholeOrHaveWorkersOfTheirOwn) {
  EXPECT_THAT(divideChannels(256, 1, 2, 16), ElementsAre(ChannelRange{0, 256}));
  EXPECT_THAT(divideChannels(256, 2, 2, 16), ElementsAre(ChannelRange{0, 128}, ChannelRange{128, 256}));
  EXPECT_THAT(divideChannels(256, 3, 2, 16),
              ElementsAre(ChannelRange{0, 128}, ChannelRange{128, 192}, ChannelRange{192, 256}));
  EXPECT_THAT(divideChannels(256, 4, 2, 16), ElementsAre(ChannelRange{0, 64}, ChannelRange{64, 128},
                                                         ChannelRange{128, 192}, ChannelRange{192, 256}));
  EXPECT_THAT(divideChannels(256, 5, 2, 16),
              ElementsAre(ChannelRange{0, 64}, ChannelRange{64, 128}, ChannelRange{128, 160},
                          ChannelRange{160, 208}, ChannelRange{208, 256}));
  EXPECT_THAT(divideChannels(64, 3, 8, 16),
              ElementsAre(ChannelRange{0, 16}, ChannelRange{16, 40}, ChannelRange{40, 64}));
}

// Parts follow each other and none is empty; workers' parts differ as little as their units allow; a part is whole groups or
// lies in one; and cuts inside a group are at blocks where a group has enough of them for its workers.
void expectGoodDivision(std::int64_t channels, int workers, int groups, std::int64_t block) {
  SCOPED_TRACE(
      fmt::format("{} channels, {} workers, {} groups, blocks of {}", channels, workers, groups, block));
  const std::vector<ChannelRange> parts = divideChannels(channels, workers, groups, block);
  ASSERT_EQ(std::ssize(parts), workers);
  const std::int64_t perGroup = channels / groups;
  std::int64_t next = 0;
  for (const ChannelRange& part : parts) {
    ASSERT_EQ(part.first, next);
    ASSERT_GT(part.count(), 0);
    next = part.last;
    const bool isWholeGroups = part.first % perGroup == 0 && part.last % perGroup == 0;
    ASSERT_TRUE(isWholeGroups || part.first / perGroup == (part.last - 1) / perGroup);
    const int workersOfAGroup = (workers + groups - 1) / groups;
    const bool hasBlocks = (perGroup + block - 1) / block >= workersOfAGroup;
    ASSERT_TRUE(isWholeGroups || !hasBlocks || part.first % perGroup % block == 0);
  }
  ASSERT_EQ(next, channels);
  if (groups > 1 && workers > groups) return;  // those of a smaller number of workers have more each
  const std::int64_t unit = groups > 1 ? perGroup : (channels + block - 1) / block >= workers ? block : 1;
  const auto [least, most] = std::ranges::minmax(parts, {}, &ChannelRange::count);
  // One unit, or less where the last block is not whole.
  ASSERT_LT(most.count() - least.count(), 2 * unit);
}

TEST(DivideChannels, TilesForAllCombinations) {
  for (const int groups : {1, 2, 3, 8}) {
    for (std::int64_t perGroup = 1; perGroup <= 70; perGroup += perGroup < 20 ? 1 : 7) {
      for (int workers = 1; workers <= std::min<std::int64_t>(groups * perGroup, 19); ++workers) {
        for (const std::int64_t block : {1, 4, 16})
          expectGoodDivision(groups * perGroup, workers, groups, block);
      }
    }
  }
}

}  // namespace
}  // namespace cohort
