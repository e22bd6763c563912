// Which stretches of an arena have come. Private to center.
#pragma once

#include <cstddef>
#include <iterator>
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
    covered_ += range.size();
    // Neighbours become one: who sends float by float takes no more memory.
    std::size_t begin = range.begin;
    std::size_t end = range.end;
    if (after != stretches_.begin() && std::prev(after)->second == begin) {
      begin = std::prev(after)->first;
      stretches_.erase(std::prev(after));
    }
    if (after != stretches_.end() && after->first == end) {
      end = after->second;
      after = stretches_.erase(after);
    }
    stretches_.emplace_hint(after, begin, end);
    return true;
  }
  std::size_t covered() const { return covered_; }
  std::size_t stretches() const { return stretches_.size(); }

 private:
  std::map<std::size_t, std::size_t> stretches_;  // begin to end
  std::size_t covered_ = 0;
};

}  // namespace cohort
