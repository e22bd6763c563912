// Which stretches of an arena have come. Private to center.
#pragma once

#include <cstddef>
#include <map>

#include "base/parameter.h"

namespace cohort {

class Coverage {
 public:
  // False, and nothing is changed, where some of it is there already.
  bool add(const ArenaRange& range) {
    auto after = stretches_.lower_bound(range.begin);
    if (after != stretches_.end() && after->first < range.end) return false;
    if (after != stretches_.begin() && std::prev(after)->second > range.begin) return false;
    stretches_.emplace_hint(after, range.begin, range.end);
    covered_ += range.size();
    return true;
  }
  std::size_t covered() const { return covered_; }

 private:
  std::map<std::size_t, std::size_t> stretches_;  // begin to end
  std::size_t covered_ = 0;
};

}  // namespace cohort
