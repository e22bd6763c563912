// Who holds a run up, as far as its workers' signs tell. Pure. Private to launch.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/batch.h"

namespace cohort {

// How long a worker may be without a sign of life, and without moving though it says that it lives.
struct StallLimits {
  double silentSeconds = 60;
  double stillSeconds = 60;
};

// What is known of a worker.
struct WorkerView {
  std::string name{};            // "2"
  std::string host{};            // empty: where everybody is
  std::string failure{};         // its last words; empty: it had none
  std::string end{};             // "has ended": how it is known to be gone; empty: it is not
  double silentSeconds = 0;      // since its last sign of life
  double stillSeconds = 0;       // since it last did anything
  bool mayRest = false;          // may stand still without waiting for anybody
  std::string doing{};           // "in forward conv2"
  std::string waitsFor{};        // "worker 1: its part of step 12"; empty where it does not wait
  bool waitsForAnother = false;  // that is a worker, not a server
  Step step = 0;                 // done
};

struct Stall {
  std::size_t index = 0;  // among those looked at
  std::string sentence;   // "worker 1 did not move for 60 s: …"
};

// The first worker that failed; or that is gone, gives no sign of life, or does not move though it waits for nobody; where all wait for others and
// nothing moves, the first of those that wait for each other. Nothing where the run goes on, or rests.
std::optional<Stall> findStall(std::span<const WorkerView> workers, const StallLimits& limits);

}  // namespace cohort
