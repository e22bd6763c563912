// Bulk-synchronous training: every grain's gradient is summed in tree order, then applied once. A piece is
// applied by the lane that completes its sum, at once, while it is in the cache and other layers still
// compute: a closed piece's weights are read by no grain any more in this step.
#pragma once

#include <atomic>

#include "optim/shard.h"
#include "sync/sync_rule.h"
#include "sync/tree_sum.h"

namespace cohort {

class BulkSynchronous : public SyncRule {
 public:
  BulkSynchronous(const ParameterLayout& layout, Shard& shard, int grains, int lanes);

  void beginStep(Step step) override { step_ = step; }
  GrainRange grainsOf(int lane) const override { return shareOf({0, grains_}, {lane, lanes_}); }
  GradientSink& sinkFor(GrainIndex grain) override { return sum_.sinkFor(grain); }
  void finishStep() override {}
  void keepGradients(std::span<float> arena) override { kept_ = arena; }
  double updateSeconds() const override { return static_cast<double>(updateNanoseconds_.load()) * 1e-9; }

 private:
  void apply(PieceIndex piece, std::span<const float> sum);

  const ParameterLayout& layout_;
  Shard& shard_;
  int grains_;
  int lanes_;
  Step step_ = 0;
  std::span<float> kept_;
  std::atomic<std::int64_t> updateNanoseconds_ = 0;
  TreeSum sum_;
};

}  // namespace cohort
