#include "study/study.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "train/config_file.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Study parse(const std::string& text, const std::filesystem::path& file = "s.yaml") {
  return studyFromYaml(text, file, builtinNetworks());
}

std::vector<std::string> names(const Study& study) {
  std::vector<std::string> result;
  for (const StudyRun& run : study.runs) result.push_back(run.name);
  return result;
}

std::string refusal(const std::string& text) {
  return errorOf<UsageError>([&] { parse(text); });
}

TEST(Study, IsTheProductOfItsListsTheLastOneFastestAndThenTheRuns) {
  const Study study = parse(
      "name: n\n"
      "settings: {network: mnist-fc}\n"
      "vary:\n"
      "  lr: [0.1, 0.01]\n"
      "  batch-size: [50, 100, 200]\n"
      "runs:\n"
      "  - {batch-size: 64, lr: 0.05}\n"
      "  - {}\n");
  EXPECT_EQ(study.name, "n");
  EXPECT_THAT(study.varied, ElementsAre("lr", "batch-size"));
  EXPECT_THAT(names(study),
              ElementsAre("batch-size=50_lr=0.1", "batch-size=100_lr=0.1", "batch-size=200_lr=0.1",
                          "batch-size=50_lr=0.01", "batch-size=100_lr=0.01", "batch-size=200_lr=0.01",
                          "batch-size=64_lr=0.05", "base"));
  EXPECT_EQ(study.runs[1].config.batchSize, 100);
  EXPECT_EQ(study.runs[1].config.learningRate, 0.1);
  EXPECT_EQ(study.runs[1].config.network, "mnist-fc");
  EXPECT_EQ(variedText(study.runs[6]), "batch-size=64, lr=0.05");
}

TEST(Study, MayHaveSeveralProducts) {
  const Study study = parse(
      "vary:\n"
      "  - {lr: [0.1, 0.2], seed: &seeds [1, 2]}\n"
      "  - {weight-decay: [0.5], seed: *seeds}\n"
      "runs: [{seed: 3}]\n");
  EXPECT_THAT(study.varied, ElementsAre("lr", "seed", "weight-decay"));
  EXPECT_THAT(names(study), ElementsAre("lr=0.1_seed=1", "lr=0.1_seed=2", "lr=0.2_seed=1", "lr=0.2_seed=2",
                                        "seed=1_weight-decay=0.5", "seed=2_weight-decay=0.5", "seed=3"));
}

TEST(Study, NamesOfPointsDoNotDependOnOtherPoints) {
  const Study few = parse("vary: {lr: [0.1], seed: [2]}\n");
  const Study more = parse("runs: [{weight-decay: 0.5}]\nvary: {seed: [1, 2], lr: [0.2, 0.1]}\nrepeat: 2\n");
  const std::vector<std::string> all = names(more);
  EXPECT_EQ(names(few), std::vector<std::string>{"lr=0.1_seed=2"});
  EXPECT_EQ(std::count(all.begin(), all.end(), "lr=0.1_seed=2"), 1);
}

TEST(Study, NamesAreFoldersNamesAndDiffer) {
  const Study study = parse(
      "vary:\n"
      "  data-dir: [a/b, a-b, \"a b\", ../../etc, \"\"]\n"
      "runs:\n"
      "  - {param-rule: [\"conv.*:lr=2\", \"fc.*:lr=3\"]}\n" +
      fmt::format("  - {{data-dir: {}}}\n  - {{data-dir: {}b}}\n", std::string(300, 'x'),
                  std::string(299, 'x')));
  std::vector<std::string> all = names(study);
  for (const std::string& name : all) {
    EXPECT_LT(name.size(), 150U);
    EXPECT_EQ(name.find_first_of("/ \"*\\"), std::string::npos) << name;
  }
  EXPECT_EQ(all[1], "data-dir=a-b");
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(Study, DoesEveryPointOnceBeforeItRepeatsThem) {
  const std::string text = "settings: {seed: 7}\nvary: {lr: [0.1, 0.2]}\nrepeat: 3\n";
  const Study same = parse(text);
  EXPECT_THAT(names(same), ElementsAre("lr=0.1", "lr=0.2", "lr=0.1_repeat=2", "lr=0.2_repeat=2",
                                       "lr=0.1_repeat=3", "lr=0.2_repeat=3"));
  EXPECT_EQ(same.runs[4].config.seed, 7U);
  EXPECT_EQ(same.runs[4].point, "lr=0.1");
  EXPECT_EQ(same.runs[4].repetition, 3);
  const Study different = parse(text + "seeds: different\n");
  EXPECT_EQ(different.runs[0].config.seed, 7U);
  EXPECT_EQ(different.runs[2].config.seed, 8U);
  EXPECT_EQ(different.runs[4].config.seed, 9U);
  EXPECT_THAT(flagsOf(different.runs[4].given), ElementsAre("--seed=9", "--lr=0.1"));
}

TEST(Study, MayOnlyRepeat) {
  EXPECT_THAT(names(parse("repeat: 2\n")), ElementsAre("base", "base_repeat=2"));
}

TEST(Study, StandsOnItsConfigurationFile) {
  const TestDirectory folder;
  std::filesystem::create_directories(folder / "configs");
  writeTestFile(folder / "configs/base.yaml", "network: mnist-fc\nbatch-size: 50\nepochs: 4\n");
  const Study study =
      parse("config: configs/base.yaml\nsettings: {train-steps: 9}\nvary: {lr: [0.5]}\n", folder / "s.yaml");
  EXPECT_EQ(study.name, "s");
  EXPECT_EQ(study.base.at("batch-size").front(), "50");
  EXPECT_THAT(study.configText, HasSubstr("epochs: 4"));
  const RunConfig& config = study.runs[0].config;
  EXPECT_EQ(config.network, "mnist-fc");
  EXPECT_EQ(config.batchSize, 50);
  EXPECT_EQ(config.learningRate, 0.5);
  EXPECT_EQ(config.trainSteps, 9);
  EXPECT_EQ(config.epochs, 0) << "a length replaces every length below";
  EXPECT_FALSE(study.runs[0].given.contains("batch-size")) << "the file is given to the run as it is";
}

TEST(Study, ALengthOfAPointReplacesTheLengthOfAll) {
  const Study study = parse("settings: {train-steps: 1000}\nvary: {epochs: [1, 2]}\n");
  EXPECT_EQ(study.runs[1].config.trainSteps, 0);
  EXPECT_EQ(study.runs[1].config.epochs, 2);
}

TEST(Study, ValuesKeepTheirText) {
  const Study study = parse(
      "vary:\n"
      "  schedule: [\"piecewise:1=0.1,2=0.01\", constant]\n"
      "  momentum: [0.5]\n"
      "  shuffle: [false]\n"
      "runs:\n"
      "  - param-rule: [\"a:lr=2\", \"b,c:lr=3\"]\n"
      "    checkpoint-every: 600s\n");
  EXPECT_EQ(study.runs[0].config.schedule, "piecewise:1=0.1,2=0.01");
  EXPECT_FALSE(study.runs[0].config.shuffle);
  EXPECT_THAT(flagsOf(study.runs[1].given),
              ElementsAre("--no-shuffle", "--momentum=0.5", "--schedule=constant"));
  EXPECT_THAT(flagsOf(study.runs[2].given),
              ElementsAre("--param-rule=a:lr=2", "--param-rule=b,c:lr=3", "--checkpoint-every=600s"));
}

TEST(Study, ReadsMeasuresAndCharts) {
  const Study one = parse("chart: {x: lr, y: accuracy, log-x: true, title: T}\nvary: {lr: [1, 2]}\n");
  EXPECT_FALSE(one.measures.empty());
  ASSERT_EQ(one.charts.size(), 1U);
  EXPECT_EQ(one.charts[0].x, "lr");
  EXPECT_THAT(one.charts[0].y, ElementsAre("accuracy"));
  EXPECT_TRUE(one.charts[0].logX);
  EXPECT_FALSE(one.charts[0].logY);
  EXPECT_EQ(one.charts[0].title, "T");
  const Study two = parse(
      "vary: {lr: [1, 2]}\nmeasure: [checkpoint_s, accuracy]\n"
      "chart:\n- {x: lr, y: [loss, accuracy], log-y: true}\n- {x: elapsed_s, y: [accuracy]}\n");
  EXPECT_THAT(two.measures, ElementsAre("checkpoint_s", "accuracy"));
  ASSERT_EQ(two.charts.size(), 2U);
  EXPECT_THAT(two.charts[0].y, ElementsAre("loss", "accuracy"));
}

TEST(Study, WrongFilesAreRefusedWithTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1, 2]\n", "s.yaml:1: a study is a map"},
      {"", "s.yaml:1: "},
      {"a: \xff\n", "s.yaml is no text"},
      {"name: [\n", "this is not YAML"},
      {"a: 1\n---\nb: 1\n", "s.yaml:2:1: here begins a second document; a study is one"},
      {"name: x\n", "s.yaml:1: nothing is varied"},
      {"name: x\nvarry: {lr: [1]}\n", "s.yaml:2: a study has no 'varry'; did you mean vary?"},
      {"name: x\nname: y\nrepeat: 2\n", "s.yaml:2: name is there twice"},
      {"name: ../x\nrepeat: 2\n", "s.yaml:1: name is of up to 100 letters"},
      {"vary: {}\n", "s.yaml:1: vary is a map"},
      {"vary: []\n", "s.yaml:1: vary is one map, or a list of some"},
      {"vary:\n  - lr: [0.1]\n  - fast\n", "s.yaml:3: vary is a map"},
      {"vary:\n  - lr: [0.1]\n  - lr: [0.1]\n", "s.yaml:3: lr=0.1 is the same run as lr=0.1 of line 2"},
      {"vary:\n  lr: 0.1\n", "s.yaml:2: lr is varied over a list"},
      {"vary:\n  lr: []\n", "s.yaml:2: the list of lr is empty"},
      {"vary:\n  lr: [0.1]\n  rate:\n    - 1\n", "s.yaml:3:3: "},
      {"vary:\n  lr:\n    - 0.1\n    - fast\n", "s.yaml:4:7: "},
      {"vary:\n  batch-size: [32,\n    many]\n", "s.yaml:3:5: "},
      {"vary:\n  lr: [0.1]\n  lr: [0.2]\n", "s.yaml:3: lr is varied twice"},
      {"vary:\n  batch-size: [50]\n  batch_size: [60]\n", "s.yaml:3: batch-size is varied twice"},
      {"settings:\n  seed: 1\n  seed: 2\nrepeat: 2\n", "s.yaml:3: seed is given twice"},
      {"settings: {optimizer: best}\nrepeat: 2\n", "s.yaml:1:"},
      {"settings: {job-dir: here}\nrepeat: 2\n", "s.yaml:1: a study has no job-dir"},
      {"settings: 5\nrepeat: 2\n", "s.yaml:1: settings is a map"},
      {"vary:\n  network: [mnist-fc, nonet]\n", "s.yaml:2: "},
      {"settings: {grains: 4}\nvary:\n  batch-size: [8, 10]\n", "s.yaml:3: a batch of 10 does not divide"},
      {"vary:\n  lr: [0.1, 0.10]\n", "s.yaml:2: lr=0.10 is the same run as lr=0.1 of line 2"},
      {"vary:\n  lr: [0.1]\nruns:\n- {lr: 0.1}\n", "s.yaml:4: lr=0.1 is the same run as lr=0.1 of line 2"},
      {"vary:\n  seed: [1, 2]\nrepeat: 2\nseeds: different\n", "is the same run as seed=2"},
      {"runs: []\n", "s.yaml:1: runs is a list"},
      {"runs:\n  - 5\n", "s.yaml:2: an entry of runs is a map"},
      {"repeat: 0\n", "s.yaml:1: repeat is a whole number from 1"},
      {"repeat: often\n", "s.yaml:1: repeat is a whole number"},
      {"repeat: 2\nseeds: other\n", "s.yaml:2: seeds is same or different"},
      {"repeat: 2\nmeasure: [acuracy]\n", "s.yaml:2: summary.json has no 'acuracy'; did you mean accuracy?"},
      {"repeat: 2\nmeasure: [accuracy, accuracy]\n", "s.yaml:2: measure has accuracy twice"},
      {"repeat: 2\nchart: {x: lr, y: [loss]}\n", "s.yaml:2: x is a setting that is varied"},
      {"repeat: 2\nchart: {x: loss}\n", "s.yaml:2: a chart needs x, and y or curve"},
      {"repeat: 2\nchart: {x: step, y: [loss], curve: [loss]}\n",
       "s.yaml:2: a chart needs x, and y or curve"},
      {"repeat: 2\nchart: {x: lr, curve: [loss]}\n",
       "s.yaml:2: x of a curve is step, samples, virtual_s, not 'lr'"},
      {"repeat: 2\nchart: {x: step, curve: los}\n", "s.yaml:2: a curve is loss, accuracy,"},
      {"repeat: 2\nchart: {x: step, curve: loss, where: 3}\n", "s.yaml:2: where is a map"},
      {"repeat: 2\nchart: {x: step, curve: loss, where: {lr: 1}}\n",
       "settings that are varied, which 'lr' is not"},
      {"repeat: 2\nchart: {x: step, curve: loss, y-min: low}\n", "s.yaml:2: y-min is a number"},
      {"repeat: 2\nchart: {x: loss, y: [lr]}\n", "s.yaml:2: summary.json has no 'lr'"},
      {"repeat: 2\nchart: {x: loss, y: [loss], colour: red}\n", "s.yaml:2: a chart has no 'colour'"},
      {"repeat: 2\nchart: {x: loss, y: [loss], log-x: maybe}\n", "s.yaml:2: log-x is true or false"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(refusal(text), HasSubstr(message)) << text;
}

TEST(Study, IsRefusedWhereItWouldBeTooLarge) {
  std::string list = "1";
  for (int i = 2; i <= 101; ++i) list += fmt::format(", {}", i);
  const std::string hundred = list.substr(0, list.rfind(','));
  const auto product = [](const std::string& a, const std::string& b) {
    return fmt::format("vary:\n  seed: [{}]\n  keep: [{}]\n", a, b);
  };
  EXPECT_EQ(parse(product(hundred, hundred)).runs.size(), kMostStudyRuns);
  EXPECT_THAT(refusal(product(list, hundred)), HasSubstr("s.yaml:1: these are more than 10000 runs"));
  EXPECT_THAT(refusal(product(hundred, hundred) + "repeat: 2\n"), HasSubstr("more than 10000 runs"));
  EXPECT_THAT(refusal(fmt::format("vary: [{{seed: [{0}], keep: [{0}]}}, {{lr: [0.1]}}]\n", hundred)),
              HasSubstr("more than 10000 runs"));
  std::string axes = "vary:\n";
  for (const char* name :
       {"seed", "keep", "samples", "test-samples", "log-every", "eval-every", "train-steps"})
    axes += fmt::format("  {}: [{}]\n", name, hundred);
  axes += fmt::format("  lr: [{0}]\n  weight-decay: [{0}]\n  max-time: [{0}]\n", hundred);
  EXPECT_THAT(refusal(axes), HasSubstr("more than 10000 runs")) << "the product is larger than 64 bits hold";
}

TEST(Study, AliasesCannotMakeAValueExplode) {
  std::string text = "runs:\n  - {param-rule: &a0 [x, x, x, x, x, x, x, x, x, x]}\n";
  for (int i = 1; i < 7; ++i) {
    text += fmt::format("  - {{param-rule: &a{} [", i);
    for (int j = 0; j < 10; ++j) text += fmt::format("*a{}, ", i - 1);
    text += "]}\n";
  }
  EXPECT_THAT(refusal(text), HasSubstr("s.yaml:"));
}

TEST(Flags, GiveTheSameConfigurationBack) {
  const GivenSettings given{{"schedule", {""}},
                            {"data-threads", {"-1"}},
                            {"shuffle", {"false"}},
                            {"histograms", {"true"}},
                            {"param-rule", {"-x", "y z"}}};
  EXPECT_THAT(flagsOf(given), ElementsAre("--no-shuffle", "--param-rule=-x", "--param-rule=y z", "--schedule",
                                          "", "--histograms", "--data-threads=-1"));
}

}  // namespace
}  // namespace cohort
