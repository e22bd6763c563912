// What a worker is doing just now, for those who watch it from outside. Written by the training thread and its lanes, read by
// any thread; never waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/batch.h"

namespace cohort {

class Activity {
 public:
  enum class Phase { Preparing, Steps, Evaluation, Checkpoint, Ending };

  struct Snapshot {
    Phase phase = Phase::Preparing;
    Step step = 0;            // done
    bool isReading = false;   // a lane waits for samples
    bool isWaiting = false;   // for a center
    std::uint64_t beats = 0;  // goes up with everything that is done
  };

  void enter(Phase phase) {
    phase_ = phase;
    beat();
  }
  void finishStep(Step step) {
    step_ = step;
    beat();
  }
  void beat() { beats_.fetch_add(1, std::memory_order_relaxed); }

  // A lane, around its reading.
  void beginReading() { reading_.fetch_add(1, std::memory_order_relaxed); }
  void endReading() {
    reading_.fetch_sub(1, std::memory_order_relaxed);
    beat();
  }

  // The training thread, around its waiting for a center.
  void wait(bool isWaiting) {
    waiting_ = isWaiting;
    beat();
  }

  Snapshot now() const {
    return {
        .phase = phase_, .step = step_, .isReading = reading_ > 0, .isWaiting = waiting_, .beats = beats_};
  }

 private:
  std::atomic<Phase> phase_ = Phase::Preparing;
  std::atomic<Step> step_ = 0;
  std::atomic<int> reading_ = 0;
  std::atomic<bool> waiting_ = false;
  std::atomic<std::uint64_t> beats_ = 0;
};

}  // namespace cohort
