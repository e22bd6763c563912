// Gradients in, new weights out: all synchronisation rules differ only behind this interface.
//
// In every step: beginStep once; then each lane computes its grains in order, telling each one's loss after its forward pass
// and reporting its gradient to sinkFor(grain); then, when all lanes are done, finishStep once, after which the weights are
// the next step's.
#pragma once

#include <span>

#include "base/grain_tree.h"
#include "base/trainable.h"
#include "sync/step_agreement.h"

namespace cohort {

class SyncRule {
 public:
  virtual ~SyncRule() = default;
  // What this worker wishes to happen after the step; see StepResult.
  virtual void beginStep(Step step, Wishes wishes) = 0;
  // The grains of this worker's lane, to be computed in order.
  virtual GrainRange grainsOf(int lane) const = 0;
  virtual void reportLoss(GrainIndex grain, const LossSum& loss) = 0;
  virtual GradientSink& sinkFor(GrainIndex grain) = 0;
  virtual StepResult finishStep() = 0;
  // Whether the weights after this step are the run's: the same on all workers. Only then is there something to evaluate or to
  // keep.
  virtual bool isCommon(Step) const { return true; }
  // From the next step on, the gradients as they were applied are also left in this arena, in the slices that this worker
  // applies; empty: no more.
  virtual void keepGradients(std::span<float> arena) = 0;
  // Time that the lanes together spent applying updates, in seconds since the start.
  virtual double updateSeconds() const = 0;
};

}  // namespace cohort
