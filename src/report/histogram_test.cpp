#include "report/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The limits of the bucket with the only value.
std::pair<double, double> bucketOf(float value) {
  const Histogram histogram = histogramOf(std::span(&value, 1));
  EXPECT_EQ(histogram.counts.back(), 1) << value;
  EXPECT_EQ(histogram.limits.size(), 2u) << value;
  return {histogram.limits.front(), histogram.limits.back()};
}

TEST(Histogram, SumsUpItsValues) {
  const std::vector<float> values = {1, -2, 0.5f, 1, 0};
  const Histogram histogram = histogramOf(values);
  EXPECT_EQ(histogram.min, -2);
  EXPECT_EQ(histogram.max, 1);
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.sum, 0.5);
  EXPECT_EQ(histogram.sumSquares, 6.25);
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 5);
  EXPECT_EQ(histogram.counts, (std::vector<double>{0, 1, 0, 1, 0, 1, 0, 2})) << "empty ones are joined";
  EXPECT_TRUE(std::ranges::is_sorted(histogram.limits));
}

TEST(Histogram, EveryValueLiesInItsBucketAndTheBucketsGrowByATenth) {
  std::vector<float> values = {1e-12f, 0.1f, 1, 1.1f, 1.21f, 3, 1000, 1e19f, 1.0f + 1e-7f, 3e-12f};
  while (values.back() < 1e19f) values.push_back(values.back() * 1.0077f);
  for (const float value : values) {
    for (const float sign : {1.0f, -1.0f}) {
      const auto [low, high] = bucketOf(sign * value);
      EXPECT_LE(low, static_cast<double>(sign * value));
      EXPECT_GT(high, static_cast<double>(sign * value));
      if (value < 2e-12f) continue;
      EXPECT_NEAR(sign > 0 ? high / low : low / high, 1.1, 1e-12) << value;
    }
  }
}

TEST(Histogram, HasBucketsForZeroTheTiniestAndTheLargest) {
  EXPECT_EQ(bucketOf(0), std::pair(0.0, 1e-12));
  EXPECT_EQ(bucketOf(-0.0f), std::pair(0.0, 1e-12));
  EXPECT_EQ(bucketOf(1e-30f), std::pair(0.0, 1e-12));
  EXPECT_EQ(bucketOf(std::numeric_limits<float>::denorm_min()), std::pair(0.0, 1e-12));
  EXPECT_EQ(bucketOf(-std::numeric_limits<float>::denorm_min()), std::pair(-1e-12, 0.0));
  EXPECT_EQ(bucketOf(std::numeric_limits<float>::max()).second, std::numeric_limits<double>::max());
  EXPECT_GT(bucketOf(std::numeric_limits<float>::max()).first, 9e19);
  const auto [low, high] = bucketOf(std::numeric_limits<float>::lowest());
  EXPECT_EQ(low, std::numeric_limits<double>::lowest());
  EXPECT_LT(high, -9e19);
}

TEST(Histogram, LeavesOutWhatIsNoNumber) {
  const std::vector<float> values = {kInfinity, 2, std::nanf(""), -kInfinity};
  const Histogram histogram = histogramOf(values);
  EXPECT_EQ(histogram.count, 1);
  EXPECT_EQ(histogram.min, 2);
  EXPECT_EQ(histogram.max, 2);
  EXPECT_EQ(histogram.sum, 2);
}

TEST(Histogram, OfNothingIsEmpty) {
  const float nan = std::nanf("");
  for (const Histogram& histogram : {histogramOf({}), histogramOf(std::span(&nan, 1))}) {
    EXPECT_EQ(histogram.count, 0);
    EXPECT_EQ(histogram.min, 0);
    EXPECT_TRUE(histogram.limits.empty());
  }
}

}  // namespace
}  // namespace cohort
