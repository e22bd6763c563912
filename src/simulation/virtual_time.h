// Time that is computed, not measured: whole nanoseconds, so that sums are exact and what happens at once does so on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace cohort {

using VirtualTime = std::int64_t;  // nanoseconds since the run began

inline constexpr VirtualTime kNever = std::numeric_limits<VirtualTime>::max();

inline VirtualTime virtualTime(double seconds) {
  constexpr double kMost = 4e18;  // 126 years, and room to add
  const double nanoseconds = std::nearbyint(seconds * 1e9);
  return nanoseconds < kMost ? static_cast<VirtualTime>(nanoseconds) : static_cast<VirtualTime>(kMost);
}

inline double secondsOf(VirtualTime time) {
  return static_cast<double>(time) * 1e-9;
}

}  // namespace cohort
