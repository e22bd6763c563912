#include "train/foreign_model.h"

#include <utility>

#include "base/error.h"

namespace cohort {

ForeignLanes::ForeignLanes(ForeignModel model, const Shape& input, int classes, std::int64_t grainSize,
                           Lanes& lanes, std::uint64_t seed)
    : model_(std::move(model)),
      input_(input),
      classes_(classes),
      grainSize_(grainSize),
      lanes_(lanes),
      seed_(seed),
      layout_(model_.layout(input, classes)) {}

ForeignLanes::Owned ForeignLanes::make(std::span<const float> weights, bool isTraining) const {
  Owned models;
  for (int lane = 0; lane < lanes_.count(); ++lane) {
    models.push_back(model_.make(
        {.input = input_, .classes = classes_, .weights = weights, .seed = seed_, .isTraining = isTraining}));
    if (models.back()->layout().size() != layout_.size()) {
      throw UsageError("a model's lanes have other parameters than its network says");
    }
  }
  return models;
}

std::vector<Trainable*> ForeignLanes::pointersTo(const Owned& models) {
  std::vector<Trainable*> pointers;
  for (const auto& model : models) pointers.push_back(model.get());
  return pointers;
}

std::vector<LossSum> ForeignLanes::evaluate(const Dataset& dataset, std::span<const float> weights,
                                            Share share) {
  if (evaluation_.empty()) evaluation_ = make(weights, false);
  return evaluateShare(lanes_, pointersTo(evaluation_), dataset, grainSize_, share);
}

}  // namespace cohort
