#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

// Sample i is two pixels of value i, its label i.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return {1, 1, 2}; }
  int classes() const override { return static_cast<int>(size_); }
  std::int32_t read(std::int64_t index, std::int64_t, std::span<float> pixels) const override {
    std::ranges::fill(pixels, static_cast<float>(index));
    return static_cast<std::int32_t>(index);
  }

 private:
  std::int64_t size_;
};

std::vector<std::int32_t> grainOf(const BatchSource& source, Step step, GrainIndex grain) {
  GrainBuffer buffer = source.makeBuffer();
  source.fill(step, grain, buffer);
  const Batch batch = buffer.batch();
  for (std::size_t i = 0; i < batch.images.size(); ++i) {
    EXPECT_EQ(batch.images[i], static_cast<float>(batch.labels[i / 2]));
  }
  return {batch.labels.begin(), batch.labels.end()};
}

// The samples of the positions [0, steps * batch).
std::vector<std::int32_t> sequence(const Dataset& dataset, const BatchOptions& options, Step steps) {
  const BatchSource source(dataset, options);
  std::vector<std::int32_t> samples;
  for (Step step = 0; step < steps; ++step) {
    for (GrainIndex grain = 0; grain < options.grains; ++grain) {
      const auto part = grainOf(source, step, grain);
      samples.insert(samples.end(), part.begin(), part.end());
    }
  }
  return samples;
}

void expectEachOncePerEpoch(std::vector<std::int32_t> samples, std::int64_t size) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  for (auto epoch = samples.begin(); samples.end() - epoch >= size; epoch += size) {
    std::sort(epoch, epoch + size);
    ASSERT_TRUE(std::equal(all.begin(), all.end(), epoch));
  }
}

TEST(BatchSource, SeesEverySampleExactlyOncePerEpoch) {
  for (const std::int64_t size : {1, 7, 64, 101, 257}) {
    const CountingDataset dataset(size);
    const auto samples = sequence(dataset, {.batchSize = 12, .grains = 3, .seed = 5}, 100);
    expectEachOncePerEpoch(samples, size);
  }
}

TEST(BatchSource, RunsAcrossEpochEndsInsideOneGrain) {
  const CountingDataset dataset(5);
  const auto samples = sequence(dataset, {.batchSize = 17, .grains = 1, .seed = 5}, 10);
  EXPECT_EQ(samples.size(), 170u);
  expectEachOncePerEpoch(samples, 5);
}

TEST(BatchSource, TheOrderDoesNotDependOnTheGrains) {
  const CountingDataset dataset(101);
  const auto whole = sequence(dataset, {.batchSize = 24, .grains = 1, .seed = 5}, 20);
  for (const int grains : {2, 3, 8, 24}) {
    EXPECT_EQ(sequence(dataset, {.batchSize = 24, .grains = grains, .seed = 5}, 20), whole);
  }
}

TEST(BatchSource, TheOrderDoesNotDependOnTheBatch) {
  const CountingDataset dataset(101);
  EXPECT_EQ(sequence(dataset, {.batchSize = 24, .grains = 2, .seed = 5}, 20),
            sequence(dataset, {.batchSize = 10, .grains = 5, .seed = 5}, 48));
}

TEST(BatchSource, AGrainDoesNotDependOnWhatWasAskedBefore) {
  const CountingDataset dataset(101);
  const BatchOptions options{.batchSize = 24, .grains = 4, .seed = 5};
  const auto all = sequence(dataset, options, 20);
  const BatchSource fresh(dataset, options);
  for (const auto& [step, grain] : {std::pair<Step, GrainIndex>{13, 2}, {0, 3}, {19, 0}, {4, 1}, {13, 2}}) {
    const auto first = all.begin() + step * 24 + Step{grain} * 6;
    EXPECT_EQ(grainOf(fresh, step, grain), std::vector<std::int32_t>(first, first + 6));
  }
}

TEST(BatchSource, SeedsAndEpochsHaveOrdersOfTheirOwn) {
  const CountingDataset dataset(100);
  const auto one = sequence(dataset, {.batchSize = 100, .seed = 1}, 2);
  const auto two = sequence(dataset, {.batchSize = 100, .seed = 2}, 2);
  const std::vector<std::int32_t> first(one.begin(), one.begin() + 100);
  const std::vector<std::int32_t> second(one.begin() + 100, one.end());
  EXPECT_NE(first, second);
  EXPECT_NE(one, two);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(BatchSource, WithoutShufflingFollowsTheIndex) {
  const CountingDataset dataset(5);
  EXPECT_EQ(sequence(dataset, {.batchSize = 4, .grains = 2, .seed = 1, .shuffle = false}, 3),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
}

// Old job directories resume with this order: a change would break them.
TEST(BatchSource, TheOrderStaysWhatItIs) {
  const CountingDataset dataset(1000);
  const auto order = sequence(dataset, {.batchSize = 6, .seed = 42}, 1);
  EXPECT_EQ(order, (std::vector<std::int32_t>{847, 198, 575, 633, 693, 914}));
}

TEST(BatchSource, TellsPositionAndGlobalSize) {
  const CountingDataset dataset(100);
  const BatchSource source(dataset, {.batchSize = 24, .grains = 4});
  GrainBuffer buffer = source.makeBuffer();
  source.fill(3, 2, buffer);
  EXPECT_EQ(buffer.batch().position, 3 * 24 + 2 * 6);
  EXPECT_EQ(buffer.batch().globalSize, 24);
  EXPECT_EQ(buffer.batch().size(), 6);
}

TEST(BatchSource, FillsTheSameMemoryAgain) {
  const CountingDataset dataset(100);
  const BatchSource source(dataset, {.batchSize = 24, .grains = 4});
  GrainBuffer buffer = source.makeBuffer();
  const float* images = buffer.batch().images.data();
  source.fill(0, 0, buffer);
  source.fill(1, 0, buffer);
  EXPECT_EQ(buffer.batch().images.data(), images);
}

TEST(BatchSource, ThreadsFillTheirOwnBuffers) {
  const CountingDataset dataset(1000);
  const BatchOptions options{.batchSize = 64, .grains = 4, .seed = 9};
  const BatchSource source(dataset, options);
  const auto expected = sequence(dataset, options, 8);
  std::vector<std::vector<std::int32_t>> parts(32);
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t part = thread; part < 32; part += 4) {
          parts[part] = grainOf(source, static_cast<Step>(part / 4), static_cast<GrainIndex>(part % 4));
        }
      });
    }
  }
  std::vector<std::int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  EXPECT_EQ(all, expected);
}

TEST(BatchSource, RefusesABatchThatDoesNotDivideAndSaysWhatWould) {
  const CountingDataset dataset(100);
  EXPECT_EQ(errorOf<UsageError>([&] { BatchSource(dataset, {.batchSize = 100, .grains = 16}); }),
            "A batch of 100 samples does not divide into 16 equal grains; use a batch of 96 or 10 grains.");
  EXPECT_THROW(BatchSource(dataset, {.batchSize = 0}), UsageError);
  EXPECT_THROW(BatchSource(dataset, {.batchSize = 4, .grains = 0}), UsageError);
}

TEST(EvaluationSource, CutsByIndexAndPadsTheLastGrain) {
  const CountingDataset dataset(10);
  const EvaluationSource source(dataset, 4);
  ASSERT_EQ(source.grains(), 3);
  GrainBuffer buffer = source.makeBuffer();
  const auto labels = [&](std::int64_t grain) {
    source.fill(grain, buffer);
    const Batch batch = buffer.batch();
    EXPECT_EQ(batch.position, grain * 4);
    EXPECT_EQ(batch.globalSize, 10);
    return std::vector<std::int32_t>(batch.labels.begin(), batch.labels.end());
  };
  EXPECT_EQ(labels(1), (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(labels(2), (std::vector<std::int32_t>{8, 9, kIgnoredLabel, kIgnoredLabel}));
  EXPECT_EQ(buffer.batch().images[3], 9.0f);
  for (const float pixel : buffer.batch().images.subspan(4)) EXPECT_EQ(pixel, 0.0f);
  EXPECT_EQ(labels(0), (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST(EvaluationSource, HasNoEmptyGrain) {
  const CountingDataset dataset(8);
  EXPECT_EQ(EvaluationSource(dataset, 4).grains(), 2);
  EXPECT_EQ(EvaluationSource(dataset, 100).grains(), 1);
  EXPECT_THROW(EvaluationSource(dataset, 0), UsageError);
}

}  // namespace
}  // namespace cohort
