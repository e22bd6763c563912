#include "engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace cohort {
namespace {

struct Placed {
  std::size_t begin;
  std::size_t end;
  int first;
  int last;
};

bool aliveTogether(const Placed& placed, const Lifetime& buffer) {
  return placed.first <= buffer.last && buffer.first <= placed.last;
}

}  // namespace

MemoryPlan planMemory(std::span<const Lifetime> buffers) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  std::vector<Placed> placed;  // by begin
  for (const std::size_t index : order) {
    const Lifetime& buffer = buffers[index];
    if (buffer.last < buffer.first || buffer.bytes == 0) continue;
    const std::size_t bytes = (buffer.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    std::size_t begin = 0;
    for (const Placed& other : placed) {
      if (!aliveTogether(other, buffer)) continue;
      if (begin + bytes <= other.begin) break;
      begin = std::max(begin, other.end);
    }
    const Placed mine{begin, begin + bytes, buffer.first, buffer.last};
    placed.insert(std::ranges::upper_bound(placed, mine.begin, {}, &Placed::begin), mine);
    plan.offsets[index] = begin;
    plan.bytes = std::max(plan.bytes, mine.end);
  }
  return plan;
}

}  // namespace cohort
