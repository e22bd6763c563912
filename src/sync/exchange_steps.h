// One worker of a member of a center that has weights of its own: the member (one worker, or a group, bulk-synchronously) steps by
// itself, and exchanges with the center when its rule says so; or gossips with others through it (GossipSteps).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/float_buffer.h"
#include "base/grain_division.h"
#include "center/client.h"
#include "comm/communicator.h"
#include "sync/bulk_synchronous.h"
#include "sync/center_worker.h"
#include "sync/own_state.h"

namespace cohort {

class ExchangeSteps : public CenterWorker {
 public:
  // This worker's part of what the member computes.
  struct Part {
    Communicator& group;
    const BucketPlan& plan;
    const GrainDivision& division;
    int lanes = 1;
  };
  // The way to the center is the member's first worker's: null on others. `own` has the slices of the plan, or all where the worker is
  // alone. Everything outlives this.
  ExchangeSteps(CenterClient* center, OwnState& own, const ParameterLayout& layout, const Part& part);

  // All grains of a step.
  void take(const Work& work, bool isBeginning) override;
  GrainRange shareIn(const Work&) const override { return grains_; }
  bool renewsWeights() override { return std::exchange(hasExchanged_, false); }
  void beginStep(Step step, Wishes wishes) override { local_->beginStep(step, wishes); }
  GrainRange grainsOf(int lane) const override { return local_->grainsOf(lane); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override { local_->reportLoss(grain, loss); }
  GradientSink& sinkFor(GrainIndex grain) override { return local_->sinkFor(grain); }
  StepResult finishStep() override;
  void keepGradients(std::span<float> arena) override { local_->keepGradients(arena); }
  double updateSeconds() const override { return local_->updateSeconds(); }

 protected:
  // After a step; `isDue`: as its rule says.
  virtual void meet(bool isDue);
  CenterClient& center() { return *center_; }
  OwnState& own() { return own_; }
  void haveOtherWeights() { hasExchanged_ = true; }
  std::span<float> received() { return seen_.span(); }
  const std::shared_ptr<FloatBuffer>& sent() const { return change_; }

 private:
  CenterClient* center_;
  OwnState& own_;
  GrainRange grains_;
  std::unique_ptr<BulkRule> local_;
  bool hasExchanged_ = false;            // since the last order
  FloatBuffer seen_;                     // the center's weights, or mail
  std::shared_ptr<FloatBuffer> change_;  // as long as something of it is sent
};

// Leaves a letter for another worker where one is due, and takes its own mail, after every step.
class GossipSteps : public ExchangeSteps {
 public:
  using ExchangeSteps::ExchangeSteps;

 protected:
  void meet(bool isDue) override;
};

}  // namespace cohort
