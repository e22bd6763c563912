// What happens in virtual time, one thing after the other: by time, and what happens at once in the order in which it was said. Used by
// one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "simulation/virtual_time.h"

namespace cohort {

class EventQueue {
 public:
  using Action = std::function<void()>;

  VirtualTime now() const { return now_; }
  // Not before now.
  void at(VirtualTime time, Action action);
  void after(VirtualTime delay, Action action) { at(now_ + delay, std::move(action)); }
  // The next one happens; false where there is none.
  bool runNext();
  std::uint64_t happened() const { return happened_; }

 private:
  struct Event {
    VirtualTime time = 0;
    std::uint64_t number = 0;
    Action action;
  };
  // For a heap whose front is the earliest.
  static bool isLater(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  VirtualTime now_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t happened_ = 0;
  std::vector<Event> heap_;
};

}  // namespace cohort
