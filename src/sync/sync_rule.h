// Gradients in, new weights out: all synchronisation rules differ only behind this interface.
//
// In every step: beginStep once; then each lane computes its grains in order, reporting to sinkFor(grain);
// then, when all lanes are done, finishStep once, after which the weights are the next step's.
#pragma once

#include <span>

#include "base/trainable.h"
#include "sync/grain_tree.h"

namespace cohort {

class SyncRule {
 public:
  virtual ~SyncRule() = default;
  virtual void beginStep(Step step) = 0;
  // The grains of this worker's lane, to be computed in order.
  virtual GrainRange grainsOf(int lane) const = 0;
  virtual GradientSink& sinkFor(GrainIndex grain) = 0;
  virtual void finishStep() = 0;
  // From the next step on, the gradients as they were applied are also left in this arena; empty: no more.
  virtual void keepGradients(std::span<float> arena) = 0;
  // Time that the lanes together spent applying updates, in seconds since the start.
  virtual double updateSeconds() const = 0;
};

}  // namespace cohort
