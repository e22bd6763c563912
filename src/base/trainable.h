// All that the training loop and the synchronisation rules know of a model. The engine's Executor is one; a
// user's own code can be another.
#pragma once

#include <cstdint>
#include <span>

#include "base/batch.h"
#include "base/parameter.h"

namespace cohort {

// Sums over the samples of a batch, padding left out.
struct LossSum {
  double loss = 0;  // weighted over all heads; the last head alone decides the counts
  std::int64_t samples = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;

  LossSum& operator+=(const LossSum& other) {
    loss += other.loss;
    samples += other.samples;
    top1 += other.top1;
    top5 += other.top5;
    return *this;
  }
  double meanLoss() const { return samples == 0 ? 0 : loss / static_cast<double>(samples); }
  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(top1) / static_cast<double>(samples);
  }
  double top5Accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(top5) / static_cast<double>(samples);
  }
};

// Where the gradient of one grain goes. Each piece is opened and closed exactly once per backward pass, in
// any order, one open at a time.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Room for the piece's gradient; its contents are undefined and must all be overwritten.
  virtual std::span<float> open(PieceIndex piece) = 0;
  // The gradient is complete, and this grain reads these weights no more in this step: the sink may already
  // change them.
  virtual void close(PieceIndex piece) = 0;
};

// One part of `count` equal parts of some work.
struct Share {
  int index = 0;
  int count = 1;
};

// One lane's view of a model: used by one thread at a time.
class Trainable {
 public:
  virtual ~Trainable() = default;
  virtual const ParameterLayout& layout() const = 0;
  // The weights have changed since the last call (or this is the first): do this share of whatever a model
  // derives from them. Every lane is called with its share, and all have returned before any forward.
  virtual void refreshWeights(Share share) = 0;
  virtual LossSum forward(const Batch& batch) = 0;
  // The gradient of the batch last given to forward, whose samples must still be there.
  virtual void backward(GradientSink& sink) = 0;
};

}  // namespace cohort
