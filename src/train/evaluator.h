// A run's evaluations: shared by the workers, and the same bits for any number of them. Private to train.
#pragma once

#include <memory>
#include <span>

#include "base/float_buffer.h"
#include "base/trainable.h"
#include "comm/channel.h"
#include "data/dataset.h"
#include "sync/slice_gather.h"
#include "train/model.h"
#include "train/training_state.h"

namespace cohort {

class Evaluator {
 public:
  // Everything outlives this. `owned` says whose shards have what. Tags from `tag` on are its own, one for each slice of a worker.
  Evaluator(const Channel& workers, const Ownership& owned, Model& model, const TrainingState& state,
            const Dataset& dataset, int tag);

  // By all workers at once, between steps. The first one gets the sum of all, the others that of their share.
  LossSum run();

 private:
  std::span<const float> weights();

  const Channel& workers_;
  const Ownership& owned_;
  Model& model_;
  const TrainingState& state_;
  const Dataset& dataset_;
  int tag_;
  FloatBuffer averages_;  // all workers' parts of a moving average, where one is kept
  std::unique_ptr<SliceGather> gather_;
};

}  // namespace cohort
