#include "data/synthetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::vector<float> sample(const Dataset& dataset, std::int64_t index) {
  std::vector<float> pixels(dataset.shape().count());
  dataset.read(index, 0, pixels);
  return pixels;
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double norms = std::inner_product(a.begin(), a.end(), a.begin(), 0.0) *
                       std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  return product / std::sqrt(norms);
}

std::vector<std::vector<float>> classMeans(const Dataset& dataset) {
  std::vector<std::vector<float>> means(static_cast<std::size_t>(dataset.classes()),
                                        std::vector<float>(dataset.shape().count()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    auto& mean = means[static_cast<std::size_t>(i % dataset.classes())];
    const auto pixels = sample(dataset, i);
    for (std::size_t j = 0; j < pixels.size(); ++j) mean[j] += pixels[j];
  }
  return means;
}

TEST(Synthetic, CyclesThroughTheClasses) {
  const SyntheticDataset dataset({.classes = 7, .size = 20});
  std::vector<float> pixels(dataset.shape().count());
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(dataset.read(i, 0, pixels), i % 7);
}

TEST(Synthetic, IsAFunctionOfSeedSplitAndIndex) {
  const SyntheticDataset dataset({.seed = 3});
  EXPECT_EQ(sample(dataset, 12), sample(SyntheticDataset({.seed = 3}), 12));
  EXPECT_EQ(sample(dataset, 12), sample(SyntheticDataset({.size = 13, .seed = 3}), 12));
  EXPECT_NE(sample(dataset, 12), sample(dataset, 22));  // the same class
  EXPECT_NE(sample(dataset, 12), sample(SyntheticDataset({.seed = 4}), 12));
  EXPECT_NE(sample(dataset, 12), sample(SyntheticDataset({.split = Split::Test, .seed = 3}), 12));
}

TEST(Synthetic, HasAboutZeroMeanAndUnitVariance) {
  for (const SampleShape shape : {SampleShape{3, 32, 32}, SampleShape{1, 28, 28}, SampleShape{3, 61, 35}}) {
    const SyntheticDataset dataset({.shape = shape, .classes = 50, .size = 500});
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      for (const double pixel : sample(dataset, i)) {
        sum += pixel;
        squares += pixel * pixel;
      }
    }
    const double n = 500.0 * static_cast<double>(shape.count());
    EXPECT_NEAR(sum / n, 0, 0.02);
    EXPECT_NEAR(squares / n, 1, 0.05);
  }
}

TEST(Synthetic, NoiseOfSamplesChannelsAndRowsIsUnrelated) {
  const SyntheticDataset dataset({.shape = {1, 64, 64}, .classes = 1, .size = 400});
  const auto pattern = classMeans(dataset)[0];
  const auto noise = [&](std::int64_t index) {
    auto pixels = sample(dataset, index);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] -= pattern[i] / 400;
    return pixels;
  };
  const auto first = noise(0);
  EXPECT_NEAR(correlation(first, noise(1)), 0, 0.08);
  EXPECT_NEAR(correlation(first, noise(399)), 0, 0.08);
  for (const int shift : {1, 2, 64, 128}) {
    auto shifted = first;
    std::rotate(shifted.begin(), shifted.begin() + shift, shifted.end());
    EXPECT_NEAR(correlation(first, shifted), 0, 0.08) << shift;
  }
}

// The nearest class mean is a linear model; learned from one split, it knows the other.
TEST(Synthetic, IsLearnedByALinearModel) {
  const SyntheticDataset train({.size = 1000, .seed = 1});
  const SyntheticDataset test({.size = 500, .split = Split::Test, .seed = 1});
  const auto means = classMeans(train);
  int right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    const auto pixels = sample(test, i);
    const auto best = std::ranges::max_element(
        means, {}, [&](const std::vector<float>& mean) { return correlation(mean, pixels); });
    right += best - means.begin() == i % 10 ? 1 : 0;
  }
  EXPECT_GT(right, 450);
}

TEST(Synthetic, OfOnePixelWorks) {
  const SyntheticDataset dataset({.shape = {1, 1, 1}, .classes = 1, .size = 1});
  EXPECT_TRUE(std::isfinite(sample(dataset, 0)[0]));
}

}  // namespace
}  // namespace cohort
