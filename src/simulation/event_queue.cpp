#include "simulation/event_queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {

void EventQueue::at(VirtualTime time, Action action) {
  COHORT_CHECK(time >= now_, "nothing happens before now");
  heap_.push_back({time, next_++, std::move(action)});
  std::ranges::push_heap(heap_, isLater);
}

bool EventQueue::runNext() {
  if (heap_.empty()) return false;
  std::ranges::pop_heap(heap_, isLater);
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.time;
  ++happened_;
  event.action();
  return true;
}

}  // namespace cohort
