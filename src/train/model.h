// A model on a worker's lanes, whatever it is made of: for training, and for evaluation. Private to train.
#pragma once

#include <span>
#include <vector>

#include "base/trainable.h"
#include "data/dataset.h"
#include "train/activity.h"
#include "train/lanes.h"
#include "train/layer_table.h"

namespace cohort {

class Model {
 public:
  virtual ~Model() = default;
  virtual const ParameterLayout& layout() const = 0;

  // For training on `weights`, which must outlive this.
  virtual void prepareTraining(std::span<const float> weights) = 0;
  // One for each lane. After prepareTraining.
  virtual std::vector<Trainable*> trainables() const = 0;
  // Lanes tell `activity`, which outlives this, where they are. After prepareTraining.
  virtual void tell(Activity&) {}
  // The layers with the time that training took so far; none where nothing is known of them. After prepareTraining, between
  // steps.
  virtual LayerTable layers() const = 0;

  // Loss and counts of a share of a dataset, which is cut into fixed grains by sample index: one for each of the share's
  // grains, in order. All shares' added up in index order are the same bits for every number of lanes and workers. Prepares
  // itself at its first call; later calls must give the same `weights`.
  virtual std::vector<LossSum> evaluate(const Dataset& dataset, std::span<const float> weights,
                                        Share share = {}) = 0;
};

// The same, with models for evaluation, one for each lane.
std::vector<LossSum> evaluateShare(Lanes& lanes, std::span<Trainable* const> models, const Dataset& dataset,
                                   std::int64_t grainSize, Share share);

}  // namespace cohort
