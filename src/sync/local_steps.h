// Rules with weights of their own: every worker steps alone on its part of the batch, and every so many steps all workers' changes
// are averaged: outer_step.h.
//
// With rate 1 and momentum 0 that is the mean of the workers' weights: local SGD. With others it is DiLoCo's outer step (Douillard
// et al. 2023: Nesterov momentum on the averaged change). Running statistics are averaged only. The optimizer's slots stay each
// worker's own.
#pragma once

#include <limits>
#include <span>

#include "optim/shard.h"
#include "sync/bucket_plan.h"
#include "sync/bulk_synchronous.h"
#include "sync/outer_step.h"
#include "sync/shard_exchange.h"
#include "sync/sync_rule.h"
#include "sync/tree_sum.h"

namespace cohort {

struct LocalOptions {
  Step every = 1;                                    // steps between averagings
  Step last = std::numeric_limits<Step>::max() - 1;  // the run's last step, after which there always is one
  double outerRate = 1;
  double outerMomentum = 0;
  Wire wire = Wire::Fp32;
};

class LocalSteps : public SyncRule {
 public:
  // `shard` is the whole arena's, of this worker alone, for the worker's own number of grains. `outer` is an arena of which the
  // plan's slices are used; empty without momentum. Grains divide equally among the workers.
  LocalSteps(Communicator& workers, const ParameterLayout& layout, const BucketPlan& plan,
             std::span<Shard> shard, std::span<float> weights, std::span<float> outer, int grains, int lanes,
             const LocalOptions& options);

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf(own_, {lane, lanes_}); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override { agreement_.report(grain, loss); }
  GradientSink& sinkFor(GrainIndex grain) override { return sum_.sinkFor(grain - own_.first); }
  StepResult finishStep() override;
  bool isCommon(Step step) const override {
    return (step + 1) % options_.every == 0 || step == options_.last;
  }
  void keepGradients(std::span<float> arena) override { shards_.keepGradients(arena); }
  double updateSeconds() const override { return shards_.seconds(); }

 private:
  void applyLocally(PieceIndex piece, std::span<float> sum);
  void average();
  OuterStep outerStep() const;
  void applyChange(std::size_t offset, std::span<const float> sum);

  Communicator& workers_;
  const ParameterLayout& layout_;
  TimedShards shards_;
  std::span<float> weights_;
  std::span<float> outer_;
  int lanes_;
  LocalOptions options_;
  Step step_ = 0;
  bool hasBegun_ = false;
  GrainTree globalTree_;
  GrainRange own_;
  GrainTree tree_;         // of the own grains
  GrainTree workersTree_;  // a leaf for each worker
  float perWorker_ = 1;    // from a share of the batch's mean to the own mean
  StepAgreement agreement_;
  TreeSum sum_;
  FloatBuffer base_;    // the weights at the last averaging
  FloatBuffer change_;  // since then
  ShardExchange exchange_;
};

}  // namespace cohort
