#include "report/run_records.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

class RunRecordsTest : public testing::Test {
 protected:
  std::filesystem::path job(const std::string& name, const std::string& config = "network: alexnet\n") const {
    std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path);
    writeTestFile(path / "config.yaml", config);
    return path;
  }
  static std::string fault(const std::filesystem::path& path) {
    return errorOf<IoError>([&] { readRunRecords(path); });
  }

  TestDirectory folder_;
};

TEST_F(RunRecordsTest, RefusesAFolderThatIsNoJobDirectory) {
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readRunRecords(folder_.path()); }),
                  folder_.path().string() + " is no job directory");
  EXPECT_THROW(readRunRecords(folder_ / "nothing"), UsageError);
}

TEST_F(RunRecordsTest, NeedOnlyOneFile) {
  const RunRecords configured = readRunRecords(job("a"));
  EXPECT_EQ(configured.name, "a");
  EXPECT_EQ(configured.setting("network"), "alexnet");
  EXPECT_EQ(configured.setting("dataset"), "");
  EXPECT_FALSE(configured.outcome);
  EXPECT_TRUE(configured.layers.empty());

  std::filesystem::create_directory(folder_ / "b");
  { MetricsFile(folder_ / "b" / "metrics.jsonl", 0).add(TrainPoint{.step = 7, .seconds = {}}); }
  const RunRecords measured = readRunRecords(folder_ / "b");
  EXPECT_TRUE(measured.settings.empty());
  EXPECT_EQ(measured.metrics.training.at(0).step, 7);
}

TEST_F(RunRecordsTest, SettingsAreTextsInTheFilesOrder) {
  const RunRecords run =
      readRunRecords(job("a",
                         "# a comment\nnetwork: mnist-cnn\nlr: 1e-4\nshuffle: true\nmomentum:\n"
                         "param-rule: [a, 'b:lr=2']\noptimizer:\n  name: adam\n  deep: {x: 1, y: 2}\n"));
  EXPECT_EQ(run.settings, (SettingTexts{{"network", "mnist-cnn"},
                                        {"lr", "1e-4"},
                                        {"shuffle", "true"},
                                        {"momentum", ""},
                                        {"param-rule", "a, b:lr=2"},
                                        {"optimizer.name", "adam"},
                                        {"optimizer.deep", "x: 1, y: 2"}}));
  EXPECT_TRUE(readRunRecords(job("empty", "")).settings.empty());
}

TEST_F(RunRecordsTest, ReadTheSummaryAndTheLayers) {
  const std::filesystem::path path = job("a");
  writeTestFile(
      path / "summary.json",
      R"({"network":"alexnet","dataset":"flowers","step":900,"loss":0.5,"accuracy":null,"elapsed_s":12.5,
                    "images_per_s":99.5,"data_s":1,"weights_hash":"0123","threads":4,"interrupted":true,"new":[]})");
  writeTestFile(
      path / "layers.json",
      R"([{"name":"conv1","operator":"conv 11x11/4 64","kind":"conv","output":"64x55x55","parameters":23296,
                     "multiply_adds":70470400,"forward_s":0.01,"backward_s":null}])");
  const RunRecords run = readRunRecords(path);
  ASSERT_TRUE(run.outcome);
  EXPECT_EQ(run.outcome->network, "alexnet");
  EXPECT_EQ(run.outcome->dataset, "flowers");
  EXPECT_EQ(run.outcome->step, 900);
  EXPECT_TRUE(std::isnan(run.outcome->accuracy));
  EXPECT_TRUE(std::isnan(run.outcome->testLoss));
  EXPECT_EQ(run.outcome->imagesPerSecond, 99.5);
  EXPECT_EQ(run.outcome->seconds.data, 1);
  EXPECT_EQ(run.outcome->weightsHash, "0123");
  EXPECT_TRUE(run.outcome->interrupted);
  ASSERT_EQ(run.layers.size(), 1u);
  EXPECT_EQ(run.layers[0].operation, "conv 11x11/4 64");
  EXPECT_EQ(run.layers[0].output, "64x55x55");
  EXPECT_EQ(run.layers[0].parameters, 23296);
  EXPECT_TRUE(std::isnan(run.layers[0].backwardSeconds));
}

TEST_F(RunRecordsTest, NameTheFileThatIsNotWhatItShouldBe) {
  EXPECT_MENTIONS(fault(job("a", "network: [")), "config.yaml:1:");
  EXPECT_MENTIONS(fault(job("b", "- a\n- b\n")), "config.yaml has no settings");
  const std::filesystem::path path = job("c");
  for (const char* text : {"", "{", "[]", "3"}) {
    writeTestFile(path / "summary.json", text);
    EXPECT_MENTIONS(fault(path), "summary.json") << text;
  }
  writeTestFile(path / "summary.json", R"({"step":"many"})");
  EXPECT_MENTIONS(fault(path), "\"step\" in " + (path / "summary.json").string());
  writeTestFile(path / "summary.json", "{}");
  for (const char* text : {"", "{}", "[3]", R"([{"name":1}])", R"([{"parameters":"x"}])"}) {
    writeTestFile(path / "layers.json", text);
    EXPECT_MENTIONS(fault(path), "layers.json") << text;
  }
}

TEST_F(RunRecordsTest, RefuseConfigurationsThatHoldThemselvesOrGrowWithoutEnd) {
  EXPECT_MENTIONS(fault(job("a", "optimizer: &a\n  optimizer: *a\n")), "config.yaml");
  EXPECT_MENTIONS(fault(job("b", "a: &a [x, *a]\n")), "config.yaml");
  std::string doubling = "a0: &a0 []\n";
  for (int i = 1; i < 31; ++i) doubling += fmt::format("a{0}: &a{0} [*a{1}, *a{1}]\n", i, i - 1);
  EXPECT_MENTIONS(fault(job("c", doubling)), "config.yaml");
  std::string longer = "a: &a " + std::string(5000, 'x') + "\nb: [";
  for (int i = 0; i < 1000; ++i) longer += "*a, ";
  EXPECT_MENTIONS(fault(job("d", longer + "]\n")), "config.yaml");
}

TEST_F(RunRecordsTest, OfSeveralRunsHaveDifferentNames) {
  const std::vector<std::filesystem::path> paths = {job("x/a"), job("y/a"), job("z/x/a"), job("b"),
                                                    folder_ / "b" / "."};
  std::vector<std::string> names;
  for (const RunRecords& run : readRunRecords(paths)) names.push_back(run.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{folder_.path().filename().string() + "/x/a", "y/a", "z/x/a", "b"}));
}

}  // namespace
}  // namespace cohort
