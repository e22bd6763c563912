#include "center/work_ledger.h"

#include <algorithm>

namespace cohort {

WorkLedger::WorkLedger(const Progress& from, Step target)
    : done_(from.done), next_(from.next), target_(target), returned_(from.open.begin(), from.open.end()) {}

std::optional<Step> WorkLedger::take(MemberId member) {
  Step step = 0;
  if (!returned_.empty()) {
    step = *returned_.begin();
    returned_.erase(returned_.begin());
  } else if (next_ < target_) {
    step = next_++;
  } else {
    return std::nullopt;
  }
  taken_.emplace(step, member);
  return step;
}

bool WorkLedger::finish(MemberId member, Step step) {
  const auto found = taken_.find(step);
  if (found == taken_.end() || found->second != member) return false;
  taken_.erase(found);
  ++done_;
  return true;
}

void WorkLedger::giveBack(MemberId member) {
  for (auto it = taken_.begin(); it != taken_.end();) {
    if (it->second != member) {
      ++it;
      continue;
    }
    returned_.insert(it->first);
    it = taken_.erase(it);
  }
}

void WorkLedger::close() {
  target_ = std::min(target_, next_);
}

int WorkLedger::held(MemberId member) const {
  return static_cast<int>(std::ranges::count(taken_, member, &std::pair<const Step, MemberId>::second));
}

Progress WorkLedger::progress() const {
  std::set<Step> open = returned_;
  for (const auto& [step, member] : taken_) open.insert(step);
  return {.done = done_, .next = next_, .open = {open.begin(), open.end()}};
}

}  // namespace cohort
