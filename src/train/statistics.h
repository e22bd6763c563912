// What a series of step times says about speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

struct SpeedStatistics {
  double imagesPerSecond = 0;  // all images over all step time
  double uncertainty = 0;      // standard deviation of the steps' speeds over the root of their number
  double jitter = 0;           // 1.4826 * median absolute deviation of the steps' speeds
  double medianStepSeconds = 0;
};

// Keeps the last 65,536 step times; adding allocates nothing.
class StepTimes {
 public:
  StepTimes();
  void add(double seconds);
  std::size_t steps() const { return total_; }
  double totalSeconds() const { return totalSeconds_; }
  // Images per second over the last `count` steps.
  double recentSpeed(std::int64_t batchSize, std::size_t count) const;
  SpeedStatistics statistics(std::int64_t batchSize) const;

 private:
  std::vector<double> ring_;
  std::size_t total_ = 0;
  double totalSeconds_ = 0;
};

double median(std::vector<double> values);  // 0 for none

}  // namespace cohort
