// Bulk-synchronous training of a network that is divided over groups of workers. A worker computes rounds instead of grains: its
// gradients of what all workers have are its own samples', those of its private parameters the whole round's.
//
// Each worker sums its rounds by a tree; what all have is then summed over all workers, and private parameters over the
// members that have them, one of each group. The same division gives the same bits; another division gives others.
#pragma once

#include <span>

#include "optim/shard.h"
#include "sync/bulk_synchronous.h"
#include "sync/divided_plan.h"
#include "sync/shard_exchange.h"
#include "sync/sync_rule.h"
#include "sync/tree_sum.h"

namespace cohort {

class DividedSynchronous : public SyncRule {
 public:
  // `layout` is what this worker computes, `shards` what it applies of it. All workers have as many rounds.
  DividedSynchronous(Communicator& workers, const ParameterLayout& layout, const DividedPlan& plan,
                     std::span<Shard> shards, std::span<float> weights, int rounds, int lanes, Wire wire);

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf({0, rounds_}, {lane, lanes_}); }
  void reportLoss(GrainIndex round, const LossSum& loss) override {
    agreement_.report(firstLoss_ + round, loss);
  }
  GradientSink& sinkFor(GrainIndex round) override { return sum_.sinkFor(round); }
  StepResult finishStep() override;
  void keepGradients(std::span<float> arena) override { shards_.keepGradients(arena); }
  double updateSeconds() const override { return shards_.seconds(); }

  // Of this rule, from tag 0 on.
  static int tagCount(const DividedPlan& plan);

 private:
  TimedShards shards_;
  int rounds_;
  int lanes_;
  Step step_ = 0;
  GrainIndex firstLoss_;
  GrainTree lossTree_;  // every worker's rounds
  GrainTree roundTree_;
  GrainTree workersTree_;  // a leaf for each worker
  GrainTree groupsTree_;   // a leaf for each group
  int workerLeaf_;
  int groupLeaf_;
  StepAgreement agreement_;
  TreeSum sum_;
  ShardExchange shared_;
  ShardExchange private_;
};

}  // namespace cohort
