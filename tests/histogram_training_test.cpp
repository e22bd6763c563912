// What --histograms records in a whole run, read back and compared with the run's checkpoints.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "report/event_file.h"
#include "tests/training_runs.h"
#include "train/safetensors.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using Values = std::map<std::string, std::vector<float>>;

// Plain descent: the gradient is what the weights have lost in a step, divided by the rate.
constexpr float kRate = 0.125F;
GivenSettings recording(const std::string& network) {
  return {{"network", {network}},     {"dataset", {"synthetic"}}, {"channels", {"3"}},
          {"image-size", {"16"}},     {"samples", {"100"}},       {"test-samples", {"20"}},
          {"classes", {"10"}},        {"batch-size", {"12"}},     {"grains", {"6"}},
          {"optimizer", {"sgd"}},     {"lr", {"0.125"}},          {"weight-decay", {"0"}},
          {"schedule", {"constant"}}, {"train-steps", {"7"}},     {"checkpoint-every", {"1"}},
          {"keep", {"20"}},           {"log-every", {"3"}},       {"threads", {"2"}},
          {"histograms", {"true"}}};
}

// The weights of a checkpoint, without what is not learnt by descent.
Values weightsAt(const fs::path& job, Step step) {
  for (const CheckpointFile& file : listCheckpoints(job / "checkpoints")) {
    if (file.step != step) continue;
    const SafetensorsReader reader(file.path);
    Values weights;
    for (const StoredTensor& tensor : reader.tensors()) {
      if (tensor.name.find(".running_") != std::string::npos) continue;
      std::vector<float>& values = weights[tensor.name];
      values.resize(tensor.bytes / sizeof(float));
      reader.read(tensor.name, values);
    }
    return weights;
  }
  ADD_FAILURE() << "there is no checkpoint of step " << step;
  return {};
}

using Histograms = std::map<Step, std::map<std::string, Histogram>>;

// Of all processes of the run.
Histograms histogramsOf(const fs::path& job) {
  Histograms found;
  for (const auto& file : fs::directory_iterator(job / "events" / "train")) {
    for (const EventRecord& event : readEvents(file.path())) {
      for (const EventRecord::Value& value : event.values) {
        if (!value.histogram) continue;
        EXPECT_TRUE(found[event.step].emplace(value.tag, *value.histogram).second)
            << value.tag << " a second time at step " << event.step;
      }
    }
  }
  return found;
}

void expectHistogram(const Histogram& histogram, const std::vector<float>& values, double tolerance,
                     const std::string& what) {
  const auto [least, most] = std::ranges::minmax_element(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(histogram.min, *least, tolerance) << what;
  EXPECT_NEAR(histogram.max, *most, tolerance) << what;
  EXPECT_NEAR(histogram.sum, sum, count * tolerance + 1e-9 * count) << what;
  EXPECT_EQ(histogram.count, count) << what;
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), count) << what;
}

class HistogramTraining : public testing::TestWithParam<std::string> {
 protected:
  TestDirectory scratch_;
  fs::path job_ = scratch_ / "job";
};
INSTANTIATE_TEST_SUITE_P(Networks, HistogramTraining, testing::Values("mnist-cnn", "resnet8"),
                         [](const auto& instance) {
                           return instance.param == "resnet8" ? "batchNorm" : "dropout";
                         });

TEST_P(HistogramTraining, RecordsTheWeightsAndGradientsOfItsSteps) {
  train(job_, recording(GetParam()));
  const Histograms histograms = histogramsOf(job_);
  std::set<Step> steps;
  for (const auto& [step, byName] : histograms) steps.insert(step);
  ASSERT_EQ(steps, (std::set<Step>{3, 6, 7}));
  for (const auto& [step, byName] : histograms) {
    const Values before = weightsAt(job_, step - 1);
    const Values after = weightsAt(job_, step);
    ASSERT_GT(after.size(), 5u);
    EXPECT_EQ(byName.size(), 2 * after.size());
    for (const auto& [name, weights] : after) {
      const std::string what = name + " at step " + std::to_string(step);
      ASSERT_TRUE(byName.contains("weights/" + name) && byName.contains("gradients/" + name)) << what;
      expectHistogram(byName.at("weights/" + name), weights, 0, "weights of " + what);
      std::vector<float> gradient(weights.size());
      std::ranges::transform(before.at(name), weights, gradient.begin(),
                             [](float from, float to) { return (from - to) / kRate; });
      // The weights' rounding; far below the gradients.
      constexpr double kTolerance = 1e-6;
      const Histogram& recorded = byName.at("gradients/" + name);
      EXPECT_GT(recorded.max - recorded.min, 50 * kTolerance) << what;
      expectHistogram(recorded, gradient, kTolerance, "gradients of " + what);
    }
  }
}

TEST_P(HistogramTraining, ChangesNoBitOfTheResult) {
  const RunSummary run = train(job_, recording(GetParam()));
  const RunSummary without =
      train(scratch_ / "without", with(recording(GetParam()), {{"histograms", {"false"}}}));
  EXPECT_EQ(run.weightsHash, without.weightsHash);
  EXPECT_EQ(run.evaluation->loss, without.evaluation->loss);
  EXPECT_TRUE(histogramsOf(scratch_ / "without").empty());
}

TEST_P(HistogramTraining, AResumedRunRecordsWhatAnUnbrokenOneDoes) {
  train(scratch_ / "calm", recording(GetParam()));
  Recorder stopper(4);
  train(job_, recording(GetParam()), stopper);
  train(job_, {{"threads", {"1"}}});
  const Histograms calm = histogramsOf(scratch_ / "calm");
  const Histograms resumed = histogramsOf(job_);
  ASSERT_EQ(resumed.size(), 3u);
  for (const auto& [step, byName] : calm) {
    ASSERT_TRUE(resumed.contains(step));
    for (const auto& [name, histogram] : byName) {
      ASSERT_TRUE(resumed.at(step).contains(name)) << name;
      EXPECT_EQ(resumed.at(step).at(name).counts, histogram.counts) << name << " at step " << step;
      EXPECT_EQ(resumed.at(step).at(name).sumSquares, histogram.sumSquares) << name << " at step " << step;
    }
  }
}

}  // namespace
}  // namespace cohort
