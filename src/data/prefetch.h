// Grains for lanes, read ahead by threads of their own.
//
// Each lane has a ring of buffers. Its grains are known before (every step the same ones, in order, or as they are planned), so
// threads fill the next buffers while the lane computes with an earlier one, which is the engine's input: nothing is copied. A lane that
// comes to a buffer nobody has begun fills it itself: threads that are late cost no more than threads that do not exist. What
// a buffer holds is a function of (step, grain), so none of this can be seen in the results.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/sampler.h"

namespace cohort {

class Prefetcher {
 public:
  using LaneGrains = std::vector<GrainIndex>;                  // of a step, in order
  static LaneGrains range(GrainIndex first, GrainIndex last);  // [first, last)

  // The same grains in every step; a lane may have none, and then asks for none. `source` outlives it. Without threads every
  // lane fills its own buffer.
  Prefetcher(const BatchSource& source, std::vector<LaneGrains> lanes, Step firstStep, int threads);
  // Grains that are planned from step to step.
  Prefetcher(const BatchSource& source, int lanes, int threads);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // What comes after all that was planned before; by lane, where a lane may have none.
  void plan(Step step, const std::vector<LaneGrains>& lanes);

  // The lane's next grain: its grains of the first step in order, then those of the second, and so on. Valid until the
  // lane's next call. Called by the lane's thread; different lanes at once. Throws what reading a sample threw.
  Batch next(int laneIndex);

 private:
  enum class State { Empty, Filling, Full };
  struct Slot {
    std::unique_ptr<GrainBuffer> buffer;
    State state = State::Empty;
    std::exception_ptr failure;
  };
  struct Item {
    Step step = 0;
    GrainIndex grain = 0;
  };
  struct Lane {
    LaneGrains everyStep{};
    std::deque<Item> upcoming{};  // otherwise: planned, and not begun
    std::vector<Slot> ring{};     // grain number n of the lane lies in slot n modulo the ring's size
    std::int64_t begun = 0;       // grains that somebody fills or has filled
    std::int64_t taken = 0;       // grains that the lane has asked for
  };

  void addLane(LaneGrains everyStep, int threads);
  void serve();
  // The lane that will run out first and has room; nullptr where all are full.
  Lane* neediest();
  static bool hasMore(const Lane& lane) { return !lane.everyStep.empty() || !lane.upcoming.empty(); }
  Slot& begin(Lane& lane, Item& item) const;
  void fill(const Item& item, Slot& slot) const;

  const BatchSource& source_;
  Step firstStep_ = 0;
  std::mutex mutex_;  // over the lanes' counts and the slots' states
  std::condition_variable roomMade_;
  std::condition_variable slotFilled_;
  std::deque<Lane> lanes_;
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace cohort
