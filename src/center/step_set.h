// A set of steps that is nearly an interval: all below a bound, and a few stretches above. It takes memory by stretches, not by
// steps: a step that never comes keeps nothing but itself open.
#pragma once

#include <iterator>
#include <limits>
#include <map>

#include "base/batch.h"

namespace cohort {

class StepSet {
 public:
  explicit StepSet(Step below = 0) : below_(below) {}

  bool contains(Step step) const {
    if (step < below_) return true;
    const auto after = stretches_.upper_bound(step);
    return after != stretches_.begin() && std::prev(after)->second > step;
  }
  // False where it was there. The last of all numbers is no step: nothing could end behind it.
  bool insert(Step step) { return step < std::numeric_limits<Step>::max() && insert(step, step + 1); }
  // Steps [begin, end); false, and nothing is changed, where some were there or there are none.
  bool insert(Step begin, Step end) {
    if (begin >= end || begin < below_) return false;
    auto after = stretches_.lower_bound(begin);
    if (after != stretches_.end() && after->first < end) return false;
    if (after != stretches_.begin()) {
      const auto before = std::prev(after);
      if (before->second > begin) return false;
      if (before->second == begin) {
        begin = before->first;
        stretches_.erase(before);
      }
    }
    if (after != stretches_.end() && after->first == end) {
      end = after->second;
      after = stretches_.erase(after);
    }
    if (begin == below_) {
      below_ = end;
    } else {
      stretches_.emplace_hint(after, begin, end);
    }
    return true;
  }

  Step below() const { return below_; }
  // Above the bound, begin to end; none touches another or the bound.
  const std::map<Step, Step>& stretches() const { return stretches_; }

 private:
  Step below_;
  std::map<Step, Step> stretches_;
};

}  // namespace cohort
