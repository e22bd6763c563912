// What a run tells of itself while it goes, and at its end: progress, log points, evaluations, the summary. Used by one thread,
// between steps. Private to train.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "optim/schedule.h"
#include "train/recorder.h"
#include "train/run.h"
#include "train/statistics.h"
#include "train/step_log.h"
#include "train/summary.h"

namespace cohort {

class RunReport {
 public:
  // Everything outlives this. `samples` are in the training set.
  RunReport(const RunConfig& config, Step target, std::int64_t samples, RunObserver& observer,
            Clock::time_point processStart);

  // Records go there from now on.
  void recordTo(Recorder& recorder) { recorder_ = &recorder; }

  // The steps [before, step) took so long, together.
  void addSteps(Step before, Step step, const LossSum& sums, double seconds);
  // Of the steps before now, only the losses count: their times were not the usual ones.
  void forgetTimes() { times_ = StepTimes(); }
  bool isLogPoint(Step step) const { return step % logInterval_ == 0 || step == target_; }
  Step logInterval() const { return logInterval_; }
  void logPoint(Step step, const TimeShares& seconds);
  EvaluationPoint addEvaluation(Step step, const LossSum& sums);

  // Of a run in virtual time: how far it is, for the points to come.
  void tell(const VirtualClock& clock) { clock_ = clock; }

  // What is known here of a summary, at this step.
  void fill(RunSummary& summary, Step step) const;
  const StepTimes& times() const { return times_; }
  double learningRate(Step step) const { return config_.learningRate * schedule_.factor(step); }

 private:
  const RunConfig& config_;
  Step target_;
  std::int64_t samples_;
  Step logInterval_;
  RunObserver& observer_;
  Clock::time_point processStart_;
  Schedule schedule_;
  Recorder* recorder_ = nullptr;
  StepTimes times_;
  std::vector<double> losses_;  // of the last steps, in turn
  std::size_t reported_ = 0;
  StepLog log_;
  std::optional<LossSum> evaluation_;
  VirtualClock clock_;
};

}  // namespace cohort
