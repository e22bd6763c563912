// Where a lane is in its work, for those who look from outside: one word, written by the lane's thread alone, on a cache line of
// its own. Writing it never waits; reading it is allowed to any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace cohort {

class LanePlace {
 public:
  enum class Doing : std::uint8_t { Nothing, Reading, Forward, Backward, Updating };
  struct Snapshot {
    Doing doing = Doing::Nothing;
    int layer = -1;  // a node of the graph; negative: not known
  };

  void set(Doing doing, int layer = -1) {
    word_.store((static_cast<std::uint32_t>(layer + 1) << kDoingBits) | static_cast<std::uint32_t>(doing),
                std::memory_order_relaxed);
  }
  Snapshot now() const {
    const std::uint32_t word = word_.load(std::memory_order_relaxed);
    return {.doing = static_cast<Doing>(word & ((1U << kDoingBits) - 1)),
            .layer = static_cast<int>(word >> kDoingBits) - 1};
  }

 private:
  static constexpr int kDoingBits = 3;
  alignas(64) std::atomic<std::uint32_t> word_ = 0;
};

}  // namespace cohort
