#include "train/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace cohort {
namespace {
constexpr std::size_t kKept = 65536;
// Makes the median absolute deviation of a normal distribution equal to its standard deviation.
constexpr double kNormalConsistency = 1.4826;
}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

StepTimes::StepTimes() {
  ring_.reserve(kKept);
}

void StepTimes::add(double seconds) {
  if (ring_.size() < kKept) {
    ring_.push_back(seconds);
  } else {
    ring_[total_ % kKept] = seconds;
  }
  ++total_;
  totalSeconds_ += seconds;
}

double StepTimes::recentSpeed(std::int64_t batchSize, std::size_t count) const {
  count = std::min({count, total_, ring_.size()});
  double seconds = 0;
  for (std::size_t i = 0; i < count; ++i) seconds += ring_[(total_ - 1 - i) % kKept];
  return seconds > 0 ? static_cast<double>(batchSize) * static_cast<double>(count) / seconds : 0;
}

SpeedStatistics StepTimes::statistics(std::int64_t batchSize) const {
  if (ring_.empty()) return {};
  const auto images = static_cast<double>(batchSize);
  std::vector<double> speeds(ring_.size());
  std::ranges::transform(ring_, speeds.begin(), [&](double seconds) { return images / seconds; });
  const auto n = static_cast<double>(speeds.size());
  const double mean = std::accumulate(speeds.begin(), speeds.end(), 0.0) / n;
  double squares = 0;
  for (const double speed : speeds) squares += (speed - mean) * (speed - mean);
  const double middle = median(speeds);
  std::vector<double> deviations(speeds.size());
  std::ranges::transform(speeds, deviations.begin(), [&](double speed) { return std::abs(speed - middle); });
  return {.imagesPerSecond = images * static_cast<double>(total_) / totalSeconds_,
          .uncertainty = n > 1 ? std::sqrt(squares / (n - 1)) / std::sqrt(n) : 0,
          .jitter = kNormalConsistency * median(deviations),
          .medianStepSeconds = median(ring_)};
}

}  // namespace cohort
