// A network on a worker's lanes: plans, prepared weights and one executor per lane, for training and for evaluation.
// Private to train.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/float_buffer.h"
#include "data/dataset.h"
#include "engine/executor.h"
#include "train/model.h"

namespace cohort {

class EngineModel : public Model {
 public:
  EngineModel(const Graph& graph, std::int64_t grainSize, Lanes& lanes, std::uint64_t seed);

  const ParameterLayout& layout() const override { return layout_; }
  void prepareTraining(std::span<const float> weights) override;
  std::vector<Trainable*> trainables() const override { return trainablesOf(*training_); }
  LayerTable layers() const override;
  std::vector<LossSum> evaluate(const Dataset& dataset, std::span<const float> weights,
                                Share share = {}) override;

 private:
  // A plan bound to the lanes.
  struct Bound {
    Bound(const Graph& graph, const EngineOptions& options) : plan(compile(graph, options)) {}
    ExecutionPlan plan;
    std::unique_ptr<PreparedWeights> prepared;
    std::vector<std::unique_ptr<Executor>> executors;
  };

  static std::vector<Trainable*> trainablesOf(const Bound& bound);
  std::unique_ptr<Bound> bind(const EngineOptions& options, std::span<const float> weights);

  Graph graph_;
  ParameterLayout layout_;
  std::int64_t grainSize_;
  Lanes& lanes_;
  std::uint64_t seed_;
  std::vector<FloatBuffer> memory_;  // by lane; training and evaluation never run at once
  std::unique_ptr<Bound> training_;
  std::unique_ptr<Bound> evaluation_;
};

}  // namespace cohort
