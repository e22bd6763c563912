#include "train/strategy_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "train/config_file.h"

namespace cohort {
namespace {

std::vector<std::string> read(const std::string& text) {
  return splitsFromYaml(text, "s.yaml");
}

std::string errorIn(const std::string& text) {
  return errorOf<UsageError>([&] { read(text); });
}

TEST(StrategyFile, HasALayerOrAnExpressionALine) {
  EXPECT_EQ(read("conv2: model\nconv1: data\n\"conv[3-5]\": data\nfc.*: model\n"),
            (std::vector<std::string>{"conv2=model", "conv1=data", "conv[3-5]=data", "fc.*=model"}))
      << "in the file's order: the first that fits counts";
  EXPECT_EQ(read("{7: model, a=b: data}"), (std::vector<std::string>{"7=model", "a=b=data"}));
}

TEST(StrategyFile, WhatIsWrongIsToldWithItsPlace) {
  const std::pair<std::string, std::string> wrong[] = {
      {"conv1: data\nfc1: half\n", "s.yaml:2:6: fc1 is data or model, not 'half'"},
      {"conv1: data\nfc1:\n", "s.yaml:2:1: fc1 is data or model"},
      {"fc1: [data]\n", "s.yaml:1:6: fc1 is data or model"},
      {"fc1: data\nfc2: data\nfc1: model\n",
       "s.yaml:3:1: fc1 is given a second time; the first is in line 1"},
      {"fc1: data\n\"fc(\": data\n", "s.yaml:2:1: the layer: 'fc(' is no regular expression"},
      {"'': data\n", "s.yaml:1:1: a layer has a name, or a regular expression that it fits"},
      {"[a]: data\n",
       "s.yaml:1:1: a layer is one text; an expression such as '[ab].*' needs quotes around it"},
      {"- fc1\n", "s.yaml:1:1: a strategy has lines such as 'fc1: model'"},
      {"", "s.yaml has no layers; write one a line, as in 'fc1: model'"},
      {"{}", "s.yaml has no layers; write one a line, as in 'fc1: model'"},
      {"fc1: data\n---\nfc2: data\n", "s.yaml:2:1: here begins a second document; a strategy is one"},
      {"fc1: [data\n", "s.yaml:2:1: this is not YAML: "},
      {std::string("a\0b", 3), "s.yaml is no text: a strategy is a YAML file in UTF-8"},
      {"? " + std::string(300, 'a') + "\n: data\n", "s.yaml:1:3: the layer has a rule of 305 characters"}};
  for (const auto& [text, sentence] : wrong) {
    EXPECT_EQ(errorIn(text).substr(0, sentence.size()), sentence) << errorIn(text);
  }
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "fc" + std::to_string(i) + ": data\n";
  EXPECT_EQ(errorIn(many), "s.yaml:1001:1: these are more than 1000 layers");
}

TEST(StrategyFile, BecomesTheRulesOfItsLayer) {
  const TestDirectory folder;
  const std::string file = (folder / "s.yaml").string();
  writeTestFile(file, "conv1: model\nfc1: data\n");
  GivenSettings layer{{std::string(kStrategyFile), {file}}, {"seed", {"3"}}};
  takeStrategyFile(layer);
  EXPECT_EQ(layer,
            (GivenSettings{{"parallel", {"data"}}, {"split", {"conv1=model", "fc1=data"}}, {"seed", {"3"}}}));
  const GivenSettings before = layer;
  takeStrategyFile(layer);
  EXPECT_EQ(layer, before) << "where there is none, nothing changes";
}

TEST(StrategyFile, MayBeNamedByAConfigurationFile) {
  const TestDirectory folder;
  writeTestFile(folder / "s.yaml", "fc.*: model\n");
  writeTestFile(folder / "c.yaml", "seed: 3\nstrategy: " + (folder / "s.yaml").string() + "\n");
  const GivenSettings given = readConfigFile(folder / "c.yaml");
  EXPECT_EQ(given, (GivenSettings{{"seed", {"3"}}, {"parallel", {"data"}}, {"split", {"fc.*=model"}}}));
  const RunConfig config = resolveConfig(builtinNetworks(), std::nullopt, given);
  EXPECT_EQ(strategyOf(config).rules, (std::vector<SplitRule>{{"fc.*", LayerSplit::Model}}));
  EXPECT_NE(toYaml(config).find("\nsplit:\n  - \"fc.*=model\"\n"), std::string::npos)
      << "a run that goes on needs no file";
}

TEST(StrategyFile, ThatIsNotThereIsNamed) {
  const TestDirectory folder;
  const auto take = [](const std::string& file) {
    return errorOf<UsageError>([&] {
      GivenSettings layer{{std::string(kStrategyFile), {file}}};
      takeStrategyFile(layer);
    });
  };
  EXPECT_EQ(take("absent.yaml"), "there is no strategy file absent.yaml");
  EXPECT_MENTIONS(take((folder / "").string()), "is a folder, not a strategy file");
  EXPECT_EQ(take(""), "--strategy needs a file's name");
  EXPECT_EQ(errorOf<UsageError>([] { settingsFromOverrides({"strategy=s.yaml"}); }),
            "-o takes no strategy; give --strategy s.yaml");
}

TEST(StrategyFile, IsOneOfThreeWaysInALayer) {
  const std::string sentence = "give one of --parallel, --mode and --strategy";
  const GivenSettings parallel{{"parallel", {"data"}}};
  for (const char* other : {"mode", "strategy"}) {
    GivenSettings layer = parallel;
    EXPECT_NO_THROW(requireOneDivision(layer, ""));
    layer[other] = {"x"};
    EXPECT_EQ(errorOf<UsageError>([&] { requireOneDivision(layer, "-o: "); }), "-o: " + sentence);
    layer.erase("parallel");
    EXPECT_NO_THROW(requireOneDivision(layer, ""));
    layer["split"] = {"a=data"};
    EXPECT_EQ(errorOf<UsageError>([&] { requireOneDivision(layer, ""); }),
              "--split refines --parallel, not --" + std::string(other) + "; give one of them");
  }
  EXPECT_NO_THROW(requireOneDivision({{"parallel", {"model"}}, {"split", {"a=data"}}}, ""));
  EXPECT_EQ(errorOf<UsageError>([] { settingsFromYaml("parallel: data\nstrategy: x\n", "c.yaml"); }),
            "c.yaml: " + sentence);
  EXPECT_EQ(errorOf<UsageError>([] {
              settingsFromOverrides({"parallel=data", "mode=1dev"});
            }),
            "-o: " + sentence);
}

}  // namespace
}  // namespace cohort
