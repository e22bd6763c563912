// Where the work of one worker is computed, with weights that are given: a desk has one lane, so that several desks compute the works
// of several workers at once, whoever's they are. Private to train.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "center/policy.h"
#include "data/sampler.h"
#include "sync/tree_sum.h"
#include "train/lanes.h"
#include "train/model.h"
#include "train/run.h"

namespace cohort {

class Desk {
 public:
  // `batches` outlives it.
  Desk(const RunContext& context, const RunConfig& config, const BatchSource& batches);

  const ParameterLayout& layout() const { return model_->layout(); }

  struct NodeSums {
    int node = 0;  // of the step's tree
    std::span<float> sums;
  };
  struct Result {
    std::vector<NodeSums> gradients;
    std::vector<LossSum> losses;  // by grain
  };
  // What a worker of a center sends for this work, to the bit. Valid until the next call.
  const Result& compute(const Work& work, std::span<const float> weights);
  // The same for one that steps alone: one sum, in the order of the tree that its own grains have.
  const Result& computeAlone(const Work& work, std::span<const float> weights);

  LossSum evaluate(const Dataset& dataset, std::span<const float> weights);
  // A share's grains; all shares' added up in index order are the whole.
  std::vector<LossSum> evaluateShare(const Dataset& dataset, std::span<const float> weights, Share share);

 private:
  // Sums by `tree`, whose grain 0 is the step's grain `first`.
  void take(const GrainTree& tree, const GrainRange& range, GrainIndex first);
  const Result& run(const Work& work, std::span<const float> weights);

  const BatchSource& batches_;
  GrainTree tree_;
  Lanes lane_;
  std::unique_ptr<Model> model_;
  FloatBuffer weights_;
  GrainBuffer samples_;
  std::unique_ptr<GrainTree> ownTree_;  // of a worker that steps alone
  const GrainTree* summedBy_ = nullptr;
  GrainRange range_{0, 0};  // of that tree
  GrainIndex first_ = 0;
  std::unique_ptr<TreeSum> sum_;
  Result result_;
};

}  // namespace cohort
