#include "report/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cohort {
namespace {

std::vector<double> bucketLimits() {
  std::vector<double> limits = {1e-12};
  while (limits.back() * 1.1 < 1e20) limits.push_back(limits.back() * 1.1);
  limits.push_back(std::numeric_limits<double>::max());
  std::vector<double> all;
  for (auto limit = limits.rbegin(); limit != limits.rend(); ++limit) all.push_back(-*limit);
  all.push_back(0);
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

// Finds a float's bucket from its upper 16 bits (sign, exponent, 7 bits more: a factor below 1.01), which leave at most
// one limit to compare with. A search among all limits would take seconds for the weights of a large network.
class BucketFinder {
 public:
  BucketFinder() : limits_(bucketLimits()) {
    for (std::uint32_t upper = 0; upper < first_.size(); ++upper) {
      const bool negative = upper >= 0x8000;
      // The smallest of the floats that begin so.
      const auto smallest = std::bit_cast<float>(upper << 16 | (negative ? 0xffffu : 0u));
      if (!std::isfinite(smallest)) continue;
      first_[upper] = static_cast<std::uint16_t>(
          std::ranges::upper_bound(limits_, static_cast<double>(smallest)) - limits_.begin());
    }
  }

  std::size_t bucketOf(float value) const {
    std::size_t bucket = first_[std::bit_cast<std::uint32_t>(value) >> 16];
    while (limits_[bucket] <= static_cast<double>(value)) ++bucket;
    return bucket;
  }
  const std::vector<double>& limits() const { return limits_; }

 private:
  std::vector<double> limits_;
  std::array<std::uint16_t, 0x10000> first_{};
};

const BucketFinder& finder() {
  static const BucketFinder made;
  return made;
}

}  // namespace

Histogram histogramOf(std::span<const float> values) {
  const std::vector<double>& limits = finder().limits();
  Histogram histogram{.min = std::numeric_limits<double>::max(),
                      .max = std::numeric_limits<double>::lowest()};
  std::vector<double> counts(limits.size(), 0);
  for (const float single : values) {
    if (!std::isfinite(single)) continue;
    const double value = single;
    histogram.min = std::min(histogram.min, value);
    histogram.max = std::max(histogram.max, value);
    histogram.sum += value;
    histogram.sumSquares += value * value;
    ++histogram.count;
    ++counts[finder().bucketOf(single)];
  }
  if (histogram.count == 0) return {};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool joinsTheOneBefore = i > 0 && counts[i] == 0 && counts[i - 1] == 0;
    if (joinsTheOneBefore) {
      histogram.limits.back() = limits[i];
    } else {
      histogram.limits.push_back(limits[i]);
      histogram.counts.push_back(counts[i]);
    }
  }
  if (histogram.counts.back() == 0) {
    histogram.limits.pop_back();
    histogram.counts.pop_back();
  }
  return histogram;
}

}  // namespace cohort
