// What a worker is doing just now, for those who watch it from outside. Written by the training thread and its lanes, which never
// wait for it; read by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/lane_place.h"

namespace cohort {

class Activity {
 public:
  enum class Phase { Meeting, Preparing, Steps, Evaluation, Checkpoint, Ending };

  struct Snapshot {
    Phase phase = Phase::Preparing;
    Step step = 0;               // done
    LanePlace::Snapshot lane{};  // of the first lane that does anything
    bool isWaiting = false;      // for a center, between its works
    int server = -1;             // of a center, that it waits for; negative: none
    std::uint64_t beats = 0;     // goes up with everything that is done
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

  // For the lane's thread, while this lives. Lanes beyond the last place share them.
  LanePlace& lane(int index) { return lanes_[static_cast<std::size_t>(index) % lanes_.size()]; }
  // What the layers of the lanes' places are called. Not in steps.
  void nameLayers(std::vector<std::string> names);

  // The training thread, around its waiting for a center.
  void wait(bool isWaiting) {
    waiting_ = isWaiting;
    beat();
  }
  // Which server of it; negative: none any more.
  void waitForServer(int server) { server_ = server; }

  Snapshot now() const;
  // "reading samples", "in forward conv2", "waiting for server 1": what could stand behind "it is".
  std::string textOf(const Snapshot& snapshot) const;

 private:
  static constexpr std::size_t kLanes = 256;

  std::string layerText(const LanePlace::Snapshot& lane) const;

  std::atomic<Phase> phase_ = Phase::Preparing;
  std::atomic<Step> step_ = 0;
  std::atomic<bool> waiting_ = false;
  std::atomic<int> server_ = -1;
  std::atomic<std::uint64_t> beats_ = 0;
  std::array<LanePlace, kLanes> lanes_;
  mutable std::mutex mutex_;
  std::vector<std::string> layers_;  // under the mutex
};

}  // namespace cohort
