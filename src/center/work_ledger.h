// Which steps nobody has yet, who computes which, and which are finished: each step is given to one member at a time, and again to
// another where that one leaves, so that all are computed exactly once. Private to center.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "center/policy.h"

namespace cohort {

class WorkLedger {
 public:
  WorkLedger(const Progress& from, Step target);

  // The first step that nobody has; nothing where there is none (now: one may be given back).
  std::optional<Step> take(MemberId member);
  // False where the step is not this member's.
  bool finish(MemberId member, Step step);
  void giveBack(MemberId member);
  // Steps that were never taken are not given out any more.
  void close();

  int held(MemberId member) const;
  bool isDone() const { return taken_.empty() && returned_.empty() && next_ >= target_; }
  Progress progress() const;

 private:
  Step done_;
  Step next_;
  Step target_;
  std::set<Step> returned_;
  std::map<Step, MemberId> taken_;
  std::map<MemberId, int> held_;  // by those who have some: looked at for every member, at every event
};

}  // namespace cohort
