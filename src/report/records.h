// What a run records: plain values, handed to every sink (metrics.jsonl, event files) alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/batch.h"

namespace cohort {

// Seconds of wall time that went where, since the log point before.
struct TimeShares {
  double data = 0;  // lanes without work because samples were not ready
  double forward = 0;
  double backward = 0;
  double update = 0;
  double wait = 0;        // for other workers
  double checkpoint = 0;  // training stood still for them
  double evaluation = 0;
};

// How far a run in virtual time is; other runs have none.
struct VirtualClock {
  double seconds = -1;  // negative: none
  std::int64_t samples = 0;

  bool isThere() const { return seconds >= 0; }
};

// One log point of training: means over the steps since the log point before.
struct TrainPoint {
  Step step = 0;     // steps done
  double epoch = 0;  // passes over the training samples
  double loss = 0;
  double accuracy = 0;
  double learningRate = 0;
  double imagesPerSecond = 0;
  double elapsedSeconds = 0;  // of this process
  TimeShares seconds;
  VirtualClock clock{};
};

struct EvaluationPoint {
  Step step = 0;
  std::string split = "test";  // or "validation"
  double loss = 0;
  double accuracy = 0;
  double top5 = 0;
  std::int64_t samples = 0;
  VirtualClock clock{};
};

// The distribution of one parameter's weights or gradients at a step.
struct ValuesPoint {
  Step step = 0;
  std::string name;  // "weights/conv1.weight", "gradients/conv1.weight"
  std::span<const float> values;
};

// A sink of records. Used by one thread. Nothing is lost when the process is killed but what came after the last flush.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void add(const TrainPoint& point) = 0;
  virtual void add(const EvaluationPoint& point) = 0;
  virtual void add(const ValuesPoint&) {}  // only some sinks keep distributions
  virtual void flush() = 0;                // IoError where the disk is full
};

}  // namespace cohort
