// One block of memory for many buffers that do not all live at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cohort {

// A buffer is written at task `first` and last read at task `last` (inclusive).
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = -1;  // before `first`: never used
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // bytes, each a multiple of kBufferAlignment
  std::size_t bytes = 0;             // of the whole block
};

inline constexpr std::size_t kBufferAlignment = 64;

// Places the largest buffers first, each in the lowest gap that no buffer alive at the same time touches.
MemoryPlan planMemory(std::span<const Lifetime> buffers);

}  // namespace cohort
