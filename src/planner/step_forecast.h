// What is asked about a training step, and what is foretold of it. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

struct StepSettings {
  int grains = 1;  // of the whole batch
  std::int64_t grainSamples = 1;
  int lanes = 1;           // of each worker
  int optimizerSlots = 1;  // floats that the optimizer keeps for each parameter
  int wireFloatBytes = 4;  // of gradients and weights between workers: 2 with --wire fp16
  bool keepSpans = false;
};

// What a thread did.
struct TimeSpan {
  static constexpr int kCommunication = -1;  // the communication thread

  int worker = 0;
  int thread = 0;    // a lane, or kCommunication
  std::string what;  // "forward conv1", "update bucket 2"
  double begin = 0;  // seconds from the begin of the step
  double end = 0;

  bool operator==(const TimeSpan&) const = default;
};

// What a step touches, in bytes; estimates that ignore what kernels need for themselves.
struct MemoryForecast {
  std::size_t weights = 0;
  std::size_t gradients = 0;    // arenas of the lanes' sums
  std::size_t slots = 0;        // of what this worker applies
  std::size_t activations = 0;  // every value of every lane, none of them sharing memory

  std::size_t total() const { return weights + gradients + slots + activations; }
  bool operator==(const MemoryForecast&) const = default;
};

struct WorkerForecast {
  double computeSeconds = 0;  // when its last lane was done; what comes after is communication that shows
  double waitSeconds = 0;     // of all its lanes, in collectives
  std::size_t sentBytes = 0;  // to other workers
  MemoryForecast memory{};

  bool operator==(const WorkerForecast&) const = default;
};

struct StepForecast {
  double seconds = 0;
  std::vector<WorkerForecast> workers{};
  std::vector<TimeSpan> spans{};  // in the order of their begin, where they are kept

  bool operator==(const StepForecast&) const = default;
};

}  // namespace cohort
