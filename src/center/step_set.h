// A set of steps that is nearly an interval: all below a bound, and a few above. Private to center.
#pragma once

#include <set>

#include "base/batch.h"

namespace cohort {

class StepSet {
 public:
  explicit StepSet(Step below = 0) : below_(below) {}

  bool contains(Step step) const { return step < below_ || above_.contains(step); }
  // False where it was there.
  bool insert(Step step) {
    if (contains(step)) return false;
    above_.insert(step);
    while (!above_.empty() && *above_.begin() == below_) {
      above_.erase(above_.begin());
      ++below_;
    }
    return true;
  }
  Step below() const { return below_; }
  const std::set<Step>& above() const { return above_; }

 private:
  Step below_;
  std::set<Step> above_;
};

}  // namespace cohort
