#include "train/run_report.h"

#include <cmath>
#include <limits>

#include <sys/resource.h>

#include "train/run_setup.h"

namespace cohort {
namespace {

// Steps that "recent" means, for the reported speed and the final loss.
constexpr std::size_t kRecent = 100;

// NaN where there is none.
double meanOfKnown(const std::vector<double>& values) {
  double sum = 0;
  int known = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++known;
  }
  return known == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / known;
}

void addUsage(RunSummary& summary) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  summary.cpuSeconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  summary.peakMemoryBytes = std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

RunReport::RunReport(const RunConfig& config, Step target, std::int64_t samples, RunObserver& observer,
                     Clock::time_point processStart)
    : config_(config),
      target_(target),
      samples_(samples),
      logInterval_(cohort::logInterval(config, target)),
      observer_(observer),
      processStart_(processStart),
      schedule_(shardOptions(config, samples).schedule),
      losses_(kRecent, std::numeric_limits<double>::quiet_NaN()) {}

void RunReport::addSteps(Step before, Step step, const LossSum& sums, double seconds) {
  const double loss = sums.meanLoss();
  for (Step i = before; i < step; ++i) {
    times_.add(seconds / static_cast<double>(step - before));
    losses_[reported_++ % kRecent] = loss;
  }
  log_.add(sums, seconds);
  const double speed = times_.recentSpeed(config_.batchSize, kRecent);
  const bool known = target_ != std::numeric_limits<Step>::max();
  observer_.progressed(
      {.step = step,
       .targetStep = known ? target_ : 0,
       .loss = loss,
       .imagesPerSecond = speed,
       .learningRate = learningRate(step - 1),
       .secondsLeft = known ? static_cast<double>((target_ - step) * config_.batchSize) / speed : -1,
       .logPoint = isLogPoint(step),
       .clock = clock_});
}

void RunReport::logPoint(Step step, const TimeShares& seconds) {
  const double epoch = static_cast<double>(step * config_.batchSize) / static_cast<double>(samples_);
  TrainPoint point = log_.take(step, epoch, learningRate(step - 1),
                               {.seconds = seconds, .elapsed = secondsSince(processStart_)});
  point.clock = clock_;
  recorder_->add(point);
  observer_.logged(point);
}

EvaluationPoint RunReport::addEvaluation(Step step, const LossSum& sums) {
  evaluation_ = sums;
  EvaluationPoint point{.step = step,
                        .split = config_.evalOn,
                        .loss = sums.meanLoss(),
                        .accuracy = sums.accuracy(),
                        .top5 = sums.top5Accuracy(),
                        .samples = sums.samples,
                        .clock = clock_};
  recorder_->add(point);
  return point;
}

void RunReport::fill(RunSummary& summary, Step step) const {
  summary.network = config_.network;
  summary.dataset = config_.dataset;
  summary.evaluatedOn = config_.evalOn;
  summary.step = step;
  summary.batchSize = config_.batchSize;
  summary.loss = meanOfKnown(losses_);
  if (!summary.interrupted) summary.evaluation = evaluation_;
  summary.speed = times_.statistics(config_.batchSize);
  summary.elapsedSeconds = secondsSince(processStart_);
  addUsage(summary);
}

}  // namespace cohort
