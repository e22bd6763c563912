// A user's own model on a worker's lanes. Private to train.
#pragma once

#include <memory>
#include <vector>

#include "models/network.h"
#include "train/model.h"

namespace cohort {

class ForeignLanes : public Model {
 public:
  ForeignLanes(ForeignModel model, const Shape& input, int classes, std::int64_t grainSize, Lanes& lanes,
               std::uint64_t seed);

  const ParameterLayout& layout() const override { return layout_; }
  void prepareTraining(std::span<const float> weights) override { training_ = make(weights, true); }
  std::vector<Trainable*> trainables() const override { return pointersTo(training_); }
  LayerTable layers() const override { return {}; }
  std::vector<LossSum> evaluate(const Dataset& dataset, std::span<const float> weights,
                                Share share = {}) override;

 private:
  using Owned = std::vector<std::unique_ptr<Trainable>>;

  Owned make(std::span<const float> weights, bool isTraining) const;
  static std::vector<Trainable*> pointersTo(const Owned& models);

  ForeignModel model_;
  Shape input_;
  int classes_;
  std::int64_t grainSize_;
  Lanes& lanes_;
  std::uint64_t seed_;
  ParameterLayout layout_;
  Owned training_;
  Owned evaluation_;
};

}  // namespace cohort
