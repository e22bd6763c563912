// The rules of workers that meet: with weights that all share, and with weights of their own.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "simulation/lockstep_simulation.h"

namespace cohort {
namespace {

void copySlots(std::span<const Shard::Slot> from, std::span<const Shard::Slot> to) {
  COHORT_CHECK(from.size() == to.size(), "two states of one run have the same slots");
  for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i].values, to[i].values.begin());
}

class SharedWeights : public LockstepRule {
 public:
  SharedWeights(const VirtualStart& start, int workers)
      : workers_(workers),
        grains_(start.options.grains),
        store_(start.layout, wholeArena(start), Acceptance::WhenComplete, false) {
    std::ranges::copy(start.weights, store_.weights().begin());
    copySlots(start.slots, store_.slots());
    store_.restore(0, StepSet(0));
  }

  GrainRange grainsOf(int worker) const override { return shareOf({0, grains_}, {worker, workers_}); }
  bool isAlone() const override { return false; }
  std::span<const float> weightsOf(int /*worker*/) override { return reader()->span(); }

  // The last one's sum completes the step while others may still read the weights: they are lent.
  void take(int /*worker*/, Step step, const Workbench::Result& result) override {
    for (const Workbench::Result::Node& node : result.gradients) {
      FloatBuffer buffer = store_.takeBuffer();
      std::ranges::copy(node.sums, buffer.data());
      const std::lock_guard lock(mutex_);
      store_.push({.step = step, .node = node.node, .basis = step}, std::move(buffer));
    }
  }
  bool meetsAfter(Step /*step*/) const override { return true; }
  void meet(Step step) override {
    reader_.reset();
    COHORT_CHECK(store_.version() == step + 1, "all grains of a step have come");
  }
  void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) override {
    std::ranges::copy(store_.weights(), weights.begin());
    copySlots(store_.slots(), slots);
  }

 private:
  static ShardOptions wholeArena(const VirtualStart& start) {
    ShardOptions options = start.options;
    options.begin = 0;
    options.end = start.layout.size();
    return options;
  }
  const std::shared_ptr<const FloatBuffer>& reader() {
    if (!reader_) reader_ = store_.snapshot();
    return reader_;
  }

  int workers_;
  int grains_;
  std::mutex mutex_;
  ShardStore store_;
  std::shared_ptr<const FloatBuffer> reader_;
};

class OwnWeights : public LockstepRule {
 public:
  OwnWeights(const VirtualStart& start, const OwnWeightsOptions& options)
      : layout_(start.layout),
        options_(options),
        grains_(start.options.grains),
        tree_(options.workers),
        base_(start.weights.size()),
        outer_(options.outerMomentum > 0 ? start.weights.size() : 0) {
    COHORT_CHECK(grains_ % options.workers == 0, "workers have equal parts of the batch");
    std::ranges::copy(start.weights, base_.data());
    ShardOptions shard = start.options;
    shard.grains = grains_ / options.workers;
    shard.begin = 0;
    shard.end = layout_.size();
    for (int worker = 0; worker < options.workers; ++worker) {
      FloatBuffer& weights = weights_.emplace_back(layout_.size());
      std::ranges::copy(start.weights, weights.data());
      shards_.emplace_back(layout_, shard, weights.span());
      copySlots(start.slots, shards_.back().slots());
    }
  }

  GrainRange grainsOf(int worker) const override { return shareOf({0, grains_}, {worker, options_.workers}); }
  bool isAlone() const override { return true; }
  std::span<const float> weightsOf(int worker) override { return of(worker).span(); }

  // A gradient is the mean over the whole batch; a worker that steps alone needs its own samples' mean.
  void take(int worker, Step step, const Workbench::Result& result) override {
    const std::span<float> sums = result.gradients.front().sums;
    const auto perWorker = static_cast<float>(options_.workers);
    for (const Parameter& parameter : layout_.parameters()) {
      if (options_.workers == 1 || parameter.kind != ParameterKind::Weight) continue;
      for (float& value : sums.subspan(parameter.offset, parameter.size)) value *= perWorker;
    }
    shards_[static_cast<std::size_t>(worker)].update(0, sums, step);
  }
  bool meetsAfter(Step step) const override {
    return (step + 1) % options_.every == 0 || step == options_.last;
  }
  void meet(Step /*step*/) override {
    const OuterStep outer{
        .workers = options_.workers, .rate = options_.outerRate, .momentum = options_.outerMomentum};
    if (outer.isNothing()) {
      std::ranges::copy(of(0).span(), base_.data());
      return;
    }
    const FloatBuffer changes = sumOfChanges(0);
    applyOuterStep(layout_, outer, 0, changes.span(), base_.span(), outer_.span());
    for (FloatBuffer& weights : weights_) std::ranges::copy(base_.span(), weights.data());
  }
  void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) override {
    std::ranges::copy(base_.span(), weights.begin());
    copySlots(shards_.front().slots(), slots);
  }

 private:
  FloatBuffer& of(int worker) { return weights_[static_cast<std::size_t>(worker)]; }

  // In the order of the workers' tree, as their exchange adds them.
  FloatBuffer sumOfChanges(int node) {
    const GrainTree::Node& n = tree_.node(node);
    if (n.left < 0) {
      const std::span<const float> weights = of(n.grains.first).span();
      FloatBuffer change(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) change.data()[i] = weights[i] - base_.data()[i];
      return change;
    }
    FloatBuffer sum = sumOfChanges(n.left);
    const FloatBuffer right = sumOfChanges(n.right);
    for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] += right.data()[i];
    return sum;
  }

  const ParameterLayout layout_;
  OwnWeightsOptions options_;
  int grains_;
  GrainTree tree_;     // a leaf for each worker
  FloatBuffer base_;   // the weights at the last meeting
  FloatBuffer outer_;  // the outer step's momentum; empty without
  std::vector<FloatBuffer> weights_;
  std::vector<Shard> shards_;
};

}  // namespace

std::unique_ptr<LockstepRule> sharedWeights(const VirtualStart& start, int workers) {
  return std::make_unique<SharedWeights>(start, workers);
}

std::unique_ptr<LockstepRule> ownWeights(const VirtualStart& start, const OwnWeightsOptions& options) {
  return std::make_unique<OwnWeights>(start, options);
}

}  // namespace cohort
