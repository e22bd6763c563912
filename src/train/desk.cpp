#include "train/desk.h"

#include <algorithm>

#include "train/run_setup.h"

namespace cohort {

Desk::Desk(const RunContext& context, const RunConfig& config, const BatchSource& batches)
    : batches_(batches),
      tree_(static_cast<int>(config.grains)),
      lane_(1),
      model_(makeModel(context, config, lane_)),
      weights_(model_->layout().size()),
      samples_(batches.makeBuffer()) {
  model_->prepareTraining(weights_.span());
}

void Desk::take(const GrainTree& tree, const GrainRange& range, GrainIndex first) {
  first_ = first;
  if (&tree == summedBy_ && range == range_) return;
  summedBy_ = &tree;
  range_ = range;
  sum_.reset();  // before the next takes its memory
  sum_ =
      std::make_unique<TreeSum>(model_->layout(), tree, range, 1, [](int, PieceIndex, std::span<float>) {});
  result_.gradients.clear();
  for (const int node : tree.cover(range)) result_.gradients.push_back({node, sum_->arenaOf(node)});
  result_.losses.resize(static_cast<std::size_t>(range.count()));
}

// A node's half is cut by its number of grains alone: whoever has one whole node sums as one that steps alone, and desks whose workers
// have as many grains each keep their memory.
const Desk::Result& Desk::compute(const Work& work, std::span<const float> weights) {
  if (const std::vector<int> nodes = tree_.cover(work.grains); nodes.size() == 1) {
    computeAlone(work, weights);
    result_.gradients.front().node = nodes.front();
    return result_;
  }
  take(tree_, work.grains, 0);
  return run(work, weights);
}

const Desk::Result& Desk::computeAlone(const Work& work, std::span<const float> weights) {
  const int count = work.grains.count();
  if (!ownTree_ || ownTree_->node(0).grains.count() != count) {
    summedBy_ = nullptr;
    sum_.reset();
    ownTree_ = std::make_unique<GrainTree>(count);
  }
  take(*ownTree_, {0, count}, work.grains.first);
  result_.gradients.front().node = 0;
  return run(work, weights);
}

const Desk::Result& Desk::run(const Work& work, std::span<const float> weights) {
  std::ranges::copy(weights, weights_.data());
  Trainable& model = *model_->trainables().front();
  model.refreshWeights({0, 1});
  for (GrainIndex grain = work.grains.first; grain < work.grains.last; ++grain) {
    batches_.fill(work.step, grain, samples_);
    result_.losses[static_cast<std::size_t>(grain - work.grains.first)] = model.forward(samples_.batch());
    model.backward(sum_->sinkFor(grain - first_));
  }
  return result_;
}

std::vector<LossSum> Desk::evaluateShare(const Dataset& dataset, std::span<const float> weights,
                                         Share share) {
  std::ranges::copy(weights, weights_.data());
  return model_->evaluate(dataset, weights_.span(), share);
}

LossSum Desk::evaluate(const Dataset& dataset, std::span<const float> weights) {
  LossSum sum;
  for (const LossSum& grain : evaluateShare(dataset, weights, {})) sum += grain;
  return sum;
}

}  // namespace cohort
