// What --no-randomness promises, seen in whole runs: the files' order, images as in evaluation, no dropout.
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "tests/image_runs.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// The samples that were read for training, by position.
class Diary {
 public:
  struct Sample {
    std::int64_t index = 0;
    std::vector<float> pixels;
  };
  void note(std::int64_t position, std::int64_t index, std::span<const float> pixels) {
    const std::scoped_lock lock(mutex_);
    samples_[position] = {index, {pixels.begin(), pixels.end()}};
  }
  const std::map<std::int64_t, Sample>& samples() const { return samples_; }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Sample> samples_;
};

class WatchedDataset : public Dataset {
 public:
  WatchedDataset(std::unique_ptr<Dataset> inner, Diary& diary) : inner_(std::move(inner)), diary_(diary) {}
  std::int64_t size() const override { return inner_->size(); }
  SampleShape shape() const override { return inner_->shape(); }
  int classes() const override { return inner_->classes(); }
  bool costly() const override { return inner_->costly(); }
  std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const override {
    const std::int32_t label = inner_->read(index, position, pixels);
    diary_.note(position, index, pixels);
    return label;
  }

 private:
  std::unique_ptr<Dataset> inner_;
  Diary& diary_;
};

// The dataset `folder`, with its training images watched.
class WatchedSource : public DataSource {
 public:
  WatchedSource(const DatasetOptions& options, Diary& diary)
      : inner_(builtinDatasets().find("folder").open(options)), diary_(diary) {}
  std::unique_ptr<Dataset> open(Split split) override {
    std::unique_ptr<Dataset> dataset = inner_->open(split);
    if (split != Split::Train) return dataset;
    return std::make_unique<WatchedDataset>(std::move(dataset), diary_);
  }

 private:
  std::unique_ptr<DataSource> inner_;
  Diary& diary_;
};

RunContext watching(Diary& diary) {
  RunContext context;
  context.datasets.add({.name = "watched", .description = "", .open = [&](const DatasetOptions& options) {
                          return std::make_unique<WatchedSource>(options, diary);
                        }});
  return context;
}

const GivenSettings kOff = {{"randomness", {"false"}}};

class Randomness : public testing::Test {
 protected:
  Randomness() { writeImageFolder(images_); }

  GivenSettings settings(const std::string& network) const { return imageSettings(network, images_); }

  // The weights' hash after a run of its own.
  std::string hashOf(const GivenSettings& given) {
    return train(scratch_ / std::to_string(jobs_++), given).weightsHash;
  }

  TestDirectory scratch_;
  fs::path images_ = scratch_ / "images";
  int jobs_ = 0;
};

// What a run of eight steps reads: 96 positions, more than two epochs of 41 images. Threads that read ahead go further.
TEST_F(Randomness, OffMeansTheFilesOrderAndImagesAsInEvaluation) {
  DatasetOptions options{.directory = images_, .channels = 1};
  options.transforms = "resize:18,center-crop:16";
  const auto plain = builtinDatasets().find("folder").open(options)->open(Split::Train);
  std::vector<float> expected(plain->shape().count());

  for (const bool off : {true, false}) {
    Diary diary;
    Recorder silent;
    train(watching(diary), scratch_ / (off ? "off" : "on"),
          with(settings("mnist-cnn"), {{"dataset", {"watched"}}, {"randomness", {off ? "false" : "true"}}}),
          silent);
    int inOrder = 0;
    int unchanged = 0;
    std::set<std::int64_t> firstEpoch;
    for (std::int64_t position = 0; position < 96; ++position) {
      ASSERT_TRUE(diary.samples().contains(position)) << position;
      const Diary::Sample& sample = diary.samples().at(position);
      if (position < 41) firstEpoch.insert(sample.index);
      plain->read(sample.index, position, expected);
      inOrder += sample.index == position % 41 ? 1 : 0;
      unchanged += sample.pixels == expected ? 1 : 0;
    }
    EXPECT_EQ(firstEpoch.size(), 41u) << "each image once in an epoch";
    if (off) {
      EXPECT_EQ(inOrder, 96);
      EXPECT_EQ(unchanged, 96);
    } else {
      EXPECT_LT(inOrder, 20);
      EXPECT_LT(unchanged, 40);  // a middle that was not mirrored comes by chance
    }
  }
}

// A step that moves nothing, on all images at once: its loss is what evaluation says of them.
TEST_F(Randomness, OffMeansNoDropout) {
  const GivenSettings still = with(settings("mnist-cnn"), {{"batch-size", {"41"}},
                                                           {"grains", {"1"}},
                                                           {"optimizer", {"sgd"}},
                                                           {"lr", {"0"}},
                                                           {"train-steps", {"1"}}});
  const double off = train(scratch_ / "off", with(still, kOff)).loss;
  const double evaluated = evaluate(scratch_ / "off", 1, "train").sums.meanLoss();
  EXPECT_NEAR(off, evaluated, 1e-6 * evaluated);
  const double on = train(scratch_ / "on", with(still, {{"transforms", {"resize:18,center-crop:16"}}})).loss;
  EXPECT_GT(std::abs(on - evaluated), 1e-3 * evaluated) << "dropout";
}

// Each of the three alone makes seeds matter, and none does where randomness is off.
TEST_F(Randomness, OffMeansThatOnlyTheFirstWeightsDependOnTheSeed) {
  const GivenSettings calm{{"shuffle", {"false"}}, {"transforms", {"resize:18,center-crop:16"}}};
  const std::vector<std::pair<std::string, GivenSettings>> sources = {
      {"nothing", with(settings("mnist-fc"), calm)},
      {"shuffling", with(settings("mnist-fc"), with(calm, {{"shuffle", {"true"}}}))},
      {"cropping", with(settings("mnist-fc"), with(calm, {{"transforms", {"resize:18,random-crop:16"}}}))},
      {"mirroring",
       with(settings("mnist-fc"), with(calm, {{"transforms", {"resize:18,center-crop:16,flip"}}}))},
      {"shifting", with(settings("mnist-fc"), with(calm, {{"transforms", {"resize:16x16,pad-crop:2"}}}))},
      {"dropout", with(settings("mnist-cnn"), calm)},
  };
  for (const auto& [name, given] : sources) {
    const std::string start =
        train(scratch_ / ("start-" + name), with(given, {{"train-steps", {"1"}}})).checkpoint;
    const GivenSettings one = with(given, {{"init-from", {start}}, {"seed", {"11"}}});
    const GivenSettings other = with(one, {{"seed", {"12"}}});
    EXPECT_EQ(hashOf(with(one, kOff)), hashOf(with(other, kOff))) << name;
    if (name == "nothing") {
      EXPECT_EQ(hashOf(one), hashOf(other));
    } else {
      EXPECT_NE(hashOf(one), hashOf(other)) << name;
    }
  }
  EXPECT_NE(hashOf(with(settings("mnist-cnn"), with(kOff, {{"seed", {"11"}}}))),
            hashOf(with(settings("mnist-cnn"), with(kOff, {{"seed", {"12"}}}))))
      << "the first weights";
}

}  // namespace
}  // namespace cohort
