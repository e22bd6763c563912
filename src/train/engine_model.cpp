#include "train/engine_model.h"

#include <utility>

#include "base/error.h"

namespace cohort {

EngineModel::EngineModel(const Graph& graph, std::int64_t grainSize, Lanes& lanes, std::uint64_t seed,
                         std::optional<GroupPart> part)
    : graph_(graph),
      layout_(parameterLayout(graph)),
      grainSize_(grainSize),
      lanes_(lanes),
      seed_(seed),
      part_(std::move(part)) {
  memory_.resize(static_cast<std::size_t>(lanes.count()));
}

std::optional<LanePort> EngineModel::portOf(std::size_t lane) const {
  if (!part_) return std::nullopt;
  return LanePort{part_->group, part_->tag + static_cast<int>(lane) * lanePortTags(part_->local.graph)};
}

std::unique_ptr<EngineModel::Bound> EngineModel::bind(ExecutionPlan plan, std::span<const float> weights) {
  auto bound = std::make_unique<Bound>(std::move(plan));
  const std::size_t floats = bound->plan.laneBytes() / sizeof(float);
  const bool isPart = bound->plan.place().count > 1;
  bound->prepared = std::make_unique<PreparedWeights>(bound->plan, weights);
  for (std::size_t lane = 0; lane < memory_.size(); ++lane) {
    if (memory_[lane].size() == 0) memory_[lane] = FloatBuffer(floats);
    if (memory_[lane].size() < floats) bound->memory.emplace_back(floats);
    FloatBuffer& memory = memory_[lane].size() < floats ? bound->memory.back() : memory_[lane];
    bound->executors.push_back(std::make_unique<Executor>(bound->plan, *bound->prepared, memory.span(), seed_,
                                                          isPart ? portOf(lane) : std::nullopt));
  }
  return bound;
}

void EngineModel::prepareTraining(std::span<const float> weights) {
  const EngineOptions options{.grainSize = grainSize_, .training = true};
  training_ = bind(part_ ? compile(part_->local, options) : compile(graph_, options), weights);
}

std::vector<Trainable*> EngineModel::trainablesOf(const Bound& bound) {
  std::vector<Trainable*> models;
  for (const auto& executor : bound.executors) models.push_back(executor.get());
  return models;
}

void EngineModel::tell(Activity& activity) {
  std::vector<std::string> names;
  for (const Node& node : training_->plan.graph().nodes) names.push_back(node.name);
  activity.nameLayers(std::move(names));
  for (std::size_t lane = 0; lane < training_->executors.size(); ++lane) {
    training_->executors[lane]->tell(activity.lane(static_cast<int>(lane)));
  }
}

LayerTable EngineModel::layers() const {
  std::vector<std::span<const NodeSeconds>> lanes;
  for (const auto& executor : training_->executors) lanes.push_back(executor->nodeSeconds());
  return layerTable(training_->plan, lanes);
}

std::vector<LossSum> EngineModel::evaluate(const Dataset& dataset, std::span<const float> weights,
                                           Share share) {
  if (!evaluation_)
    evaluation_ = bind(compile(graph_, {.grainSize = grainSize_, .training = false}), weights);
  COHORT_CHECK(evaluation_->prepared->weights().data() == weights.data(),
               "evaluation is bound to its weights");
  return evaluateShare(lanes_, trainablesOf(*evaluation_), dataset, grainSize_, share);
}

}  // namespace cohort
