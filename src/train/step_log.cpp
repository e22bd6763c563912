#include "train/step_log.h"

#include <utility>

namespace cohort {
namespace {

TimeShares difference(const TimeShares& now, const TimeShares& before) {
  return {.data = now.data - before.data,
          .forward = now.forward - before.forward,
          .backward = now.backward - before.backward,
          .update = now.update - before.update,
          .wait = now.wait - before.wait,
          .checkpoint = now.checkpoint - before.checkpoint,
          .evaluation = now.evaluation - before.evaluation};
}

}  // namespace

TrainPoint StepLog::take(Step step, double epoch, double learningRate, const Totals& totals) {
  const LossSum sums = std::exchange(sums_, {});
  const double stepSeconds = std::exchange(stepSeconds_, 0);
  const Totals before = std::exchange(before_, totals);
  return {.step = step,
          .epoch = epoch,
          .loss = sums.meanLoss(),
          .accuracy = sums.accuracy(),
          .learningRate = learningRate,
          .imagesPerSecond = stepSeconds > 0 ? static_cast<double>(sums.samples) / stepSeconds : 0,
          .elapsedSeconds = totals.elapsed,
          .seconds = difference(totals.seconds, before.seconds),
          .clock = {}};
}

}  // namespace cohort
