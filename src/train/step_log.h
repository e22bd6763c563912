// Adds up what happens between two log points. Used by one thread, between steps; adding allocates nothing. Private to
// train.
#pragma once

#include <cstdint>

#include "base/trainable.h"
#include "report/records.h"

namespace cohort {

class StepLog {
 public:
  void add(const LossSum& sums, double seconds) {
    sums_ += sums;
    stepSeconds_ += seconds;
  }
  // Seconds since the start of the process, in each part.
  struct Totals {
    TimeShares seconds;
    double elapsed = 0;
  };
  // What has come since the last call, as a log point at `step`; begins anew.
  TrainPoint take(Step step, double epoch, double learningRate, const Totals& totals);

 private:
  LossSum sums_;
  double stepSeconds_ = 0;
  Totals before_;
};

}  // namespace cohort
