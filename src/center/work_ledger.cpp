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
  ++held_[member];
  return step;
}

bool WorkLedger::finish(MemberId member, Step step) {
  const auto found = taken_.find(step);
  if (found == taken_.end() || found->second != member) return false;
  taken_.erase(found);
  if (--held_[member] == 0) held_.erase(member);
  ++done_;
  return true;
}

void WorkLedger::giveBack(MemberId member) {
  if (held_.erase(member) == 0) return;
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
  const auto found = held_.find(member);
  return found == held_.end() ? 0 : found->second;
}

Progress WorkLedger::progress() const {
  std::set<Step> open = returned_;
  for (const auto& [step, member] : taken_) open.insert(step);
  return {.done = done_, .next = next_, .open = {open.begin(), open.end()}};
}

}  // namespace cohort
