// Bulk-synchronous training: every grain's gradient is summed in tree order, then applied once; the same bits for any number of
// workers and lanes, and any division of the grains.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/grain_division.h"
#include "optim/shard.h"
#include "sync/bucket_plan.h"
#include "sync/shard_exchange.h"
#include "sync/sync_rule.h"
#include "sync/tree_sum.h"

namespace cohort {

// Shards with their updates, timed.
class TimedShards {
 public:
  // Sorted by their slices; they outlive this.
  explicit TimedShards(std::span<Shard> shards) : shards_(shards) {}

  void update(std::size_t offset, std::span<const float> sum, Step step);
  void keepGradients(std::span<float> arena) { kept_ = arena; }
  double seconds() const { return static_cast<double>(nanoseconds_.load()) * 1e-9; }

 private:
  std::span<Shard> shards_;
  std::span<float> kept_;
  std::atomic<std::int64_t> nanoseconds_ = 0;
};

// What one and several workers have in common.
class BulkRule : public SyncRule {
 public:
  // Of the last step, by grain; on the first worker alone.
  virtual std::vector<LossSum> losses() const = 0;
};

// On one worker. A piece is applied by the lane that completes its sum, at once, while it is in the cache and other layers
// still compute: a closed piece's weights are read by no grain any more in this step.
class BulkSynchronous : public BulkRule {
 public:
  BulkSynchronous(Communicator& alone, const ParameterLayout& layout, std::span<Shard> shards, int grains,
                  int lanes);

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf({0, grains_}, {lane, lanes_}); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override { agreement_.report(grain, loss); }
  GradientSink& sinkFor(GrainIndex grain) override { return sum_.sinkFor(grain); }
  StepResult finishStep() override { return agreement_.finish(); }
  std::vector<LossSum> losses() const override { return agreement_.losses(); }
  void keepGradients(std::span<float> arena) override { shards_.keepGradients(arena); }
  double updateSeconds() const override { return shards_.seconds(); }

 private:
  TimedShards shards_;
  int grains_;
  int lanes_;
  Step step_ = 0;
  GrainTree tree_;
  StepAgreement agreement_;
  TreeSum sum_;
};

// On one of several workers, each the shard of its slices (`plan`): buckets move while earlier layers still compute.
class ShardedBulkSynchronous : public BulkRule {
 public:
  ShardedBulkSynchronous(Communicator& workers, const ParameterLayout& layout, const BucketPlan& plan,
                         std::span<Shard> shards, std::span<float> weights, const GrainDivision& division,
                         int lanes, Wire wire = Wire::Fp32);

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf(own_, {lane, lanes_}); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override { agreement_.report(grain, loss); }
  GradientSink& sinkFor(GrainIndex grain) override { return sum_.sinkFor(grain); }
  StepResult finishStep() override;
  std::vector<LossSum> losses() const override { return agreement_.losses(); }
  void keepGradients(std::span<float> arena) override { shards_.keepGradients(arena); }
  double updateSeconds() const override { return shards_.seconds(); }

 private:
  TimedShards shards_;
  int lanes_;
  Step step_ = 0;
  GrainTree tree_;
  GrainRange own_;
  StepAgreement agreement_;
  TreeSum sum_;
  ShardExchange exchange_;
};

// On these workers, one or several; everything outlives it.
std::unique_ptr<BulkRule> makeBulkSynchronous(Communicator& workers, const ParameterLayout& layout,
                                              const BucketPlan& plan, std::span<Shard> shards,
                                              std::span<float> weights, const GrainDivision& division,
                                              int lanes, Wire wire = Wire::Fp32);

// By worker: the nodes of the tree that its grains make.
std::vector<std::vector<int>> coversOf(const GrainTree& tree, const GrainDivision& division);
// Where the sums of these nodes lie.
std::vector<std::span<float>> arenasOf(TreeSum& sum, const std::vector<int>& nodes);

}  // namespace cohort
