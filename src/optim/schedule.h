// The learning rate over time, as a factor of the base learning rate: a pure function of the step, computed
// in double precision without library functions whose last bit depends on the machine.
//
//   constant                       1
//   steps:EVERY,FACTOR             FACTOR ^ floor(step / EVERY)
//   exponential:DECAY_STEPS,RATE   RATE ^ floor(step / DECAY_STEPS): the same staircase, under the name by
//                                  which recipes with many small stairs give it
//   piecewise:EPOCH=FACTOR,…       1, then FACTOR from its EPOCH on (fractions allowed, increasing); the
//                                  factors are of the base rate; epoch = step * batch / samples
//   cosine:TOTAL_STEPS[,FINAL]     from 1 down half a cosine to FINAL (0 unless given), then FINAL
//   warmup:STEPS+FORM              FORM times (step + 1) / STEPS during the first STEPS steps; 'warmup:STEPS'
//                                  alone is followed by 'constant'
//
// A Schedule is a value: copyable, comparable, immutable once parsed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/batch.h"

namespace cohort {

// How steps and epochs relate.
struct EpochSize {
  std::int64_t samples = 0;  // in the training set
  std::int64_t batch = 0;    // samples in a step
};

class Schedule {
 public:
  Schedule() = default;  // constant

  double factor(Step step) const;
  const std::string& text() const { return text_; }  // as it was given

  bool operator==(const Schedule&) const = default;

 private:
  friend Schedule parseSchedule(std::string_view text, EpochSize epoch);

  enum class Form { Constant, Staircase, Piecewise, Cosine };
  struct Change {
    Step from = 0;
    double factor = 1;
    bool operator==(const Change&) const = default;
  };

  void parseForm(std::string_view form, EpochSize epoch);
  void parsePiecewise(std::string_view arguments, EpochSize epoch);
  double factorWithoutWarmup(Step step) const;

  Form form_ = Form::Constant;
  Step warmup_ = 0;              // steps
  Step length_ = 1;              // of a stair, or of the cosine
  double rate_ = 1;              // of a stair, or the cosine's final factor
  std::vector<Change> changes_;  // increasing
  std::string text_ = "constant";
};

// Throws UsageError, with the known forms, for a text that is none of them. `epoch` matters to piecewise
// alone.
Schedule parseSchedule(std::string_view text, EpochSize epoch);

}  // namespace cohort
