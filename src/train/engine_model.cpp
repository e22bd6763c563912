#include "train/engine_model.h"

#include "base/error.h"

namespace cohort {

EngineModel::EngineModel(const Graph& graph, std::int64_t grainSize, Lanes& lanes, std::uint64_t seed)
    : graph_(graph), layout_(parameterLayout(graph)), grainSize_(grainSize), lanes_(lanes), seed_(seed) {
  memory_.resize(static_cast<std::size_t>(lanes.count()));
}

std::unique_ptr<EngineModel::Bound> EngineModel::bind(const EngineOptions& options,
                                                      std::span<const float> weights) {
  auto bound = std::make_unique<Bound>(graph_, options);
  const std::size_t floats = bound->plan.laneBytes() / sizeof(float);
  bound->prepared = std::make_unique<PreparedWeights>(bound->plan, weights);
  for (FloatBuffer& memory : memory_) {
    if (memory.size() < floats) {
      COHORT_CHECK(memory.size() == 0, "evaluation needs no more memory than training");
      memory = FloatBuffer(floats);
    }
    bound->executors.push_back(
        std::make_unique<Executor>(bound->plan, *bound->prepared, memory.span(), seed_));
  }
  return bound;
}

void EngineModel::prepareTraining(std::span<const float> weights) {
  training_ = bind({.grainSize = grainSize_, .training = true}, weights);
}

std::vector<Trainable*> EngineModel::trainablesOf(const Bound& bound) {
  std::vector<Trainable*> models;
  for (const auto& executor : bound.executors) models.push_back(executor.get());
  return models;
}

LayerTable EngineModel::layers() const {
  std::vector<std::span<const NodeSeconds>> lanes;
  for (const auto& executor : training_->executors) lanes.push_back(executor->nodeSeconds());
  return layerTable(training_->plan, lanes);
}

std::vector<LossSum> EngineModel::evaluate(const Dataset& dataset, std::span<const float> weights,
                                           Share share) {
  if (!evaluation_) evaluation_ = bind({.grainSize = grainSize_, .training = false}, weights);
  COHORT_CHECK(evaluation_->prepared->weights().data() == weights.data(),
               "evaluation is bound to its weights");
  return evaluateShare(lanes_, trainablesOf(*evaluation_), dataset, grainSize_, share);
}

}  // namespace cohort
