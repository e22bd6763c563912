// Whole training runs in one process: the same bits for every number of threads, through stops and resumes.
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "engine/executor.h"
#include "engine/plan.h"
#include "tests/training_runs.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// 100 samples and batches of 12: epochs end inside batches. Six grains do not divide by four threads.
GivenSettings tiny(const std::string& network) {
  return {{"network", {network}}, {"dataset", {"synthetic"}}, {"channels", {"1"}},
          {"image-size", {"12"}}, {"classes", {"10"}},        {"samples", {"100"}},
          {"batch-size", {"12"}}, {"grains", {"6"}},          {"test-samples", {"40"}},
          {"threads", {"2"}}};
}

struct Case {
  std::string name;
  GivenSettings settings;
};
void PrintTo(const Case& c, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << c.name;
}

// A network of each kind, each with another optimizer.
std::vector<Case> cases() {
  return {
      {"dense", with(tiny("mnist-fc"), {{"optimizer", {"adagrad"}}, {"train-steps", {"12"}}})},
      {"dropout", with(tiny("mnist-cnn"), {{"optimizer", {"adam"}}, {"train-steps", {"12"}}})},
      {"normalization", with(tiny("cifar-cnn"), {{"optimizer", {"rmsprop"}},
                                                 {"lr", {"0.001"}},
                                                 {"channels", {"3"}},
                                                 {"image-size", {"24"}},
                                                 {"average-decay", {"0.99"}},
                                                 {"schedule", {"constant"}},
                                                 {"train-steps", {"10"}}})},
      {"batchNorm", with(tiny("resnet20"), {{"optimizer", {"nesterov"}},
                                            {"channels", {"3"}},
                                            {"image-size", {"16"}},
                                            {"schedule", {"cosine:20"}},
                                            {"train-steps", {"10"}}})},
      {"largeDense", with(tiny("alexnet"), {{"optimizer", {"momentum"}},
                                            {"channels", {"3"}},
                                            {"image-size", {"67"}},
                                            {"batch-size", {"6"}},
                                            {"grains", {"3"}},
                                            {"test-samples", {"5"}},
                                            {"train-steps", {"3"}}})},
      {"branches", with(tiny("googlenet"), {{"optimizer", {"sgd"}},
                                            {"channels", {"3"}},
                                            {"image-size", {"96"}},
                                            {"batch-size", {"5"}},
                                            {"grains", {"5"}},
                                            {"schedule", {"constant"}},
                                            {"test-samples", {"5"}},
                                            {"train-steps", {"3"}}})},
  };
}

class TrainingOf : public testing::TestWithParam<Case> {
 protected:
  TestDirectory scratch_;
};
INSTANTIATE_TEST_SUITE_P(Networks, TrainingOf, testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(TrainingOf, GivesTheSameBitsForEveryNumberOfThreadsAndOnEveryRun) {
  std::optional<RunSummary> first;
  for (const char* threads : {"1", "2", "3", "4", "2"}) {
    TestDirectory job;
    const RunSummary run = train(job / "job", with(GetParam().settings, {{"threads", {threads}}}));
    ASSERT_EQ(run.weightsHash.size(), 32u);
    ASSERT_TRUE(run.evaluation.has_value());
    ASSERT_TRUE(std::isfinite(run.loss));
    if (!first) first = run;
    EXPECT_EQ(run.weightsHash, first->weightsHash) << threads << " threads";
    EXPECT_EQ(run.loss, first->loss) << threads << " threads";
    EXPECT_EQ(run.evaluation->loss, first->evaluation->loss) << threads << " threads";
  }
}

TEST_P(TrainingOf, StoppedMidEpochAndContinuedWithOtherThreadsGivesTheSameBits) {
  const GivenSettings settings = GetParam().settings;
  const RunSummary calm = train(scratch_ / "calm", settings);
  Recorder stopper(1);
  const RunSummary stopped = train(scratch_ / "job", settings, stopper);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_FALSE(stopped.evaluation.has_value());
  EXPECT_EQ(stopped.step, 1);
  EXPECT_NE(stopped.weightsHash, calm.weightsHash);
  const RunSummary shorter =
      train(scratch_ / "job", {{"train-steps", {"2"}}, {"threads", {"3"}}, {"eval-every", {"1"}}});
  EXPECT_EQ(shorter.startStep, 1);
  EXPECT_EQ(shorter.step, 2);
  const RunSummary resumed =
      train(scratch_ / "job", {{"train-steps", settings.at("train-steps")}, {"threads", {"1"}}});
  EXPECT_EQ(resumed.startStep, 2);
  EXPECT_EQ(resumed.step, calm.step);
  EXPECT_FALSE(resumed.interrupted);
  EXPECT_EQ(resumed.weightsHash, calm.weightsHash);
  EXPECT_EQ(resumed.evaluation->loss, calm.evaluation->loss);
}

class Training : public testing::Test {
 protected:
  TestDirectory scratch_;
  fs::path job_ = scratch_ / "job";
  GivenSettings cnn_ = with(tiny("mnist-cnn"), {{"train-steps", {"12"}}});
};

TEST_F(Training, ResumesToTheSameBitsWithEveryOptimizer) {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"}) {
    const GivenSettings settings =
        with(cnn_, {{"optimizer", {optimizer}}, {"average-decay", {"0.9"}}, {"weight-decay", {"0.001"}}});
    const RunSummary calm = train(scratch_ / optimizer / "calm", settings);
    Recorder stopper(5);
    train(scratch_ / optimizer / "job", settings, stopper);
    const RunSummary resumed = train(scratch_ / optimizer / "job", {{"threads", {"4"}}});
    EXPECT_EQ(resumed.weightsHash, calm.weightsHash) << optimizer;
    EXPECT_EQ(resumed.evaluation->loss, calm.evaluation->loss) << optimizer;
  }
}

TEST_F(Training, TheSeedDecidesTheBits) {
  const RunSummary one = train(scratch_ / "one", cnn_);
  const RunSummary two = train(scratch_ / "two", with(cnn_, {{"seed", {"2"}}}));
  EXPECT_NE(one.weightsHash, two.weightsHash);
}

TEST_F(Training, EvaluationsAndCheckpointsOnTheWayDoNotChangeTheResult) {
  const RunSummary calm = train(scratch_ / "calm", cnn_);
  Recorder recorder;
  const RunSummary busy = train(
      job_, with(cnn_, {{"eval-every", {"5"}}, {"checkpoint-every", {"2"}}, {"keep", {"4"}}}), recorder);
  EXPECT_EQ(busy.weightsHash, calm.weightsHash);
  EXPECT_EQ(recorder.evaluations, (std::vector<Step>{5, 10}));
  EXPECT_EQ(checkpointSteps(job_), (std::vector<Step>{6, 8, 10, 12}));
  EXPECT_EQ(checkpointSteps(scratch_ / "calm"), std::vector<Step>{12});
}

TEST_F(Training, LearnsSyntheticData) {
  for (const char* network : {"mnist-cnn", "resnet20"}) {
    Recorder recorder;
    const RunSummary run =
        train(scratch_ / network, with(tiny(network), {{"train-steps", {"60"}}, {"schedule", {"constant"}}}),
              recorder);
    ASSERT_EQ(recorder.losses.size(), 60u);
    const auto mean = [](auto begin) { return std::accumulate(begin, begin + 10, 0.0) / 10; };
    EXPECT_LT(mean(recorder.losses.end() - 10), 0.7 * mean(recorder.losses.begin())) << network;
    // So few steps leave batch norm's running statistics near their start.
    if (std::string(network) == "mnist-cnn") {
      EXPECT_GT(run.evaluation->accuracy(), 0.5);
    }
  }
}

TEST_F(Training, EvaluationDoesNotDependOnThreadsAndIsTheOneAtTheEnd) {
  const RunSummary run = train(job_, with(cnn_, {{"average-decay", {"0.9"}}}));
  for (const int threads : {1, 2, 3, 4}) {
    const EvaluationResult result = evaluate(job_, threads);
    EXPECT_EQ(result.step, 12);
    EXPECT_EQ(result.weightsHash, run.weightsHash);
    EXPECT_EQ(result.sums.loss, run.evaluation->loss);
    EXPECT_EQ(result.sums.samples, 40);
    EXPECT_EQ(result.sums.top1, run.evaluation->top1);
  }
  EXPECT_EQ(evaluate(job_, 2, "train").sums.samples, 100);
  EXPECT_THROW(evaluate(job_, 1, "tset"), UsageError);
  EXPECT_THROW(evaluate(scratch_ / "nothing", 1), UsageError);
}

TEST_F(Training, AJobDirectoryOfAnotherRunIsRefusedAndStaysAsItWas) {
  train(job_, cnn_);
  EXPECT_THROW(train(job_, {{"network", {"mnist-fc"}}, {"train-steps", {"20"}}}), UsageError);
  EXPECT_THROW(train(job_, {{"batch-size", {"24"}}, {"train-steps", {"20"}}}), UsageError);
  EXPECT_EQ(train(job_, {{"train-steps", {"13"}}}).startStep, 12);
}

TEST_F(Training, ARunThatHasReachedItsStepOnlyEvaluates) {
  const RunSummary run = train(job_, cnn_);
  const RunSummary again = train(job_, cnn_);
  EXPECT_EQ(again.startStep, 12);
  EXPECT_EQ(again.step, 12);
  EXPECT_EQ(again.weightsHash, run.weightsHash);
  EXPECT_EQ(again.evaluation->loss, run.evaluation->loss);
  EXPECT_EQ(again.checkpoint, run.checkpoint);
}

TEST_F(Training, LengthsInEpochsAndTime) {
  EXPECT_EQ(train(scratch_ / "epochs", with(cnn_, {{"train-steps", {"0"}}, {"epochs", {"1.5"}}})).step, 13)
      << "150 samples in batches of 12";
  GivenSettings timed = cnn_;
  timed.erase("train-steps");
  timed["max-time"] = {"0.2s"};
  const RunSummary run = train(scratch_ / "timed", timed);
  EXPECT_GE(run.step, 1);
  EXPECT_FALSE(run.interrupted);
  EXPECT_EQ(checkpointSteps(scratch_ / "timed"), std::vector<Step>{run.step});
  EXPECT_THROW(train(scratch_ / "endless", with(cnn_, {{"train-steps", {"0"}}})), UsageError);
}

TEST_F(Training, ADamagedCheckpointCostsOnlyTheStepsSinceTheOneBefore) {
  const RunSummary calm = train(scratch_ / "calm", cnn_);
  train(job_, with(cnn_, {{"train-steps", {"8"}}, {"checkpoint-every", {"3"}}}));
  ASSERT_EQ(checkpointSteps(job_), (std::vector<Step>{3, 6, 8}));
  fs::resize_file(listCheckpoints(job_ / "checkpoints").back().path, 1000);
  Recorder recorder;
  const RunSummary resumed = train(job_, cnn_, recorder);
  EXPECT_EQ(resumed.startStep, 6);
  ASSERT_EQ(recorder.warnings.size(), 1u);
  EXPECT_NE(recorder.warnings[0].find("step-0000000008"), std::string::npos) << recorder.warnings[0];
  EXPECT_EQ(resumed.weightsHash, calm.weightsHash);
}

TEST_F(Training, DoesNotStartAgainOverDamagedCheckpoints) {
  train(job_, with(cnn_, {{"train-steps", {"2"}}}));
  for (const CheckpointFile& file : listCheckpoints(job_ / "checkpoints")) {
    writeTestFile(file.path, "damaged");
  }
  EXPECT_THROW(train(job_, cnn_), IoError);
}

TEST_F(Training, ADivergingRunSaysSoAndLeavesACheckpointToGoOnFrom) {
  const GivenSettings settings = with(cnn_, {{"optimizer", {"sgd"}}, {"checkpoint-every", {"1"}}});
  const RunSummary calm = train(scratch_ / "calm", settings);
  train(job_, with(settings, {{"train-steps", {"3"}}}));
  try {
    // 1e39 in all, which no float holds; as a learning rate alone it would be refused.
    train(job_, with(settings, {{"lr", {"1e6"}}, {"schedule", {"piecewise:0=1e33"}}}));
    FAIL() << "the loss stayed a number";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("--lr"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("step 3, is kept"), std::string::npos) << error.what();
  }
  EXPECT_EQ(checkpointSteps(job_), (std::vector<Step>{1, 2, 3}));
  EXPECT_EQ(train(job_, with(settings, {{"lr", {"1e-3"}}, {"schedule", {"constant"}}})).weightsHash,
            calm.weightsHash);
}

TEST_F(Training, StartsFromAnotherRunsWeights) {
  const RunSummary source = train(scratch_ / "source", cnn_);
  // A learning rate of 0 keeps them.
  const RunSummary copy = train(
      job_,
      with(cnn_,
           {{"init-from", {source.checkpoint}}, {"optimizer", {"sgd"}}, {"lr", {"0"}}, {"seed", {"9"}}}));
  EXPECT_EQ(copy.startStep, 0);
  EXPECT_EQ(copy.weightsHash, source.weightsHash);
  EXPECT_THROW(train(scratch_ / "other", with(tiny("mnist-fc"), {{"init-from", {source.checkpoint}}})),
               UsageError);
}

TEST_F(Training, MoreThreadsThanGrainsAreSaidToBeIdle) {
  class Idle : public Recorder {
   public:
    void started(const Started& run) override { lanes = {run.lanes, run.idleLanes}; }
    std::pair<int, int> lanes;
  } recorder;
  train(job_, with(cnn_, {{"threads", {"8"}}, {"train-steps", {"1"}}}), recorder);
  EXPECT_EQ(recorder.lanes, std::pair(6, 2));
}

// A run's lanes share one block of memory between training and evaluation.
TEST(Networks, EvaluationNeedsNoMoreMemoryThanTraining) {
  const NetworkRegistry networks = builtinNetworks();
  for (const std::string& name : networks.names()) {
    const Network network = networks.find(name);
    const Recipe& r = network.recipe;
    const Graph graph = network.build({r.channels, r.imageSize, r.imageSize}, r.classes);
    const auto bytes = [&](bool training) {
      return compile(graph, {.grainSize = r.batchSize / r.grains, .training = training}).laneBytes();
    };
    EXPECT_LE(bytes(false), bytes(true)) << name;
  }
}

}  // namespace
}  // namespace cohort
