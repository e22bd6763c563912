// For tests only: counts what the whole test program allocates with operator new, which this header replaces. Only one file
// of a test program may include it, and must be for that alone.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace cohort {

inline std::atomic<long> allocations = 0;

}  // namespace cohort

// NOLINTBEGIN(misc-definitions-in-headers): one file includes them
// Not inlined: the compiler would see free() given what operator new returned, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++cohort::allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-definitions-in-headers)
