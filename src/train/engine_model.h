// A network on a worker's lanes: plans, prepared weights and one executor per lane, for training and for evaluation.
// Private to train.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/float_buffer.h"
#include "data/dataset.h"
#include "engine/executor.h"
#include "parallel/partition.h"
#include "train/model.h"

namespace cohort {

// What a worker of a group trains of a network, and its way to the others; lane i has the tags from tag + i *
// lanePortTags(graph) on.
struct GroupPart {
  LocalGraph local;
  Group group;
  int tag = 0;
};

class EngineModel : public Model {
 public:
  // With a part, that is trained; evaluations are of the whole network.
  EngineModel(const Graph& graph, std::int64_t grainSize, Lanes& lanes, std::uint64_t seed,
              std::optional<GroupPart> part = {});

  const ParameterLayout& layout() const override { return layout_; }
  void prepareTraining(std::span<const float> weights) override;
  std::vector<Trainable*> trainables() const override { return trainablesOf(*training_); }
  void tell(Activity& activity) override;
  LayerTable layers() const override;
  std::vector<LossSum> evaluate(const Dataset& dataset, std::span<const float> weights,
                                Share share = {}) override;

 private:
  // A plan bound to the lanes.
  struct Bound {
    explicit Bound(ExecutionPlan compiled) : plan(std::move(compiled)) {}
    ExecutionPlan plan;
    std::vector<FloatBuffer> memory;  // by lane, where that of the other plan is too small
    std::unique_ptr<PreparedWeights> prepared;
    std::vector<std::unique_ptr<Executor>> executors;
  };

  static std::vector<Trainable*> trainablesOf(const Bound& bound);
  std::unique_ptr<Bound> bind(ExecutionPlan plan, std::span<const float> weights);
  std::optional<LanePort> portOf(std::size_t lane) const;

  Graph graph_;
  ParameterLayout layout_;
  std::int64_t grainSize_;
  Lanes& lanes_;
  std::uint64_t seed_;
  std::optional<GroupPart> part_;
  std::vector<FloatBuffer> memory_;  // by lane; training and evaluation never run at once
  std::unique_ptr<Bound> training_;
  std::unique_ptr<Bound> evaluation_;
};

}  // namespace cohort
