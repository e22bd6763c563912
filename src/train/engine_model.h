// A network on a worker's lanes: plans, prepared weights and one executor per lane, for training and for evaluation.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/float_buffer.h"
#include "data/dataset.h"
#include "engine/executor.h"
#include "train/lanes.h"
#include "train/layer_table.h"

namespace cohort {

class EngineModel {
 public:
  EngineModel(const Graph& graph, std::int64_t grainSize, Lanes& lanes, std::uint64_t seed);

  const ParameterLayout& layout() const { return layout_; }

  // Compiles for training on `weights`, which must outlive this.
  void prepareTraining(std::span<const float> weights);
  std::vector<Trainable*> trainables() const;
  // The layers with the time that training took so far. After prepareTraining, between steps.
  LayerTable layers() const;

  // Loss and counts of a share of a dataset, which is cut into fixed grains by sample index: one for each of the share's
  // grains, in order. All shares' added up in index order are the same bits for every number of lanes and workers. Compiles at
  // its first call; later calls must give the same `weights`.
  std::vector<LossSum> evaluate(const Dataset& dataset, std::span<const float> weights, Share share = {});

 private:
  // A plan bound to the lanes.
  struct Bound {
    Bound(const Graph& graph, const EngineOptions& options) : plan(compile(graph, options)) {}
    ExecutionPlan plan;
    std::unique_ptr<PreparedWeights> prepared;
    std::vector<std::unique_ptr<Executor>> executors;
  };

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
