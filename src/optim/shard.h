// A shard owns a slice of the parameters: the slice's optimizer slots and its update. The slice's weights
// belong to the caller. One worker has one shard of the whole arena; with many, each is the shard of its
// part.
//
// Thread safety: update() may run on several threads at once for ranges that do not overlap. Everything else
// wants the shard to itself. Invariant: how updates are cut into ranges never changes a bit.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/float_buffer.h"
#include "base/parameter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace cohort {

struct ShardOptions {
  OptimizerOptions optimizer{};
  Schedule schedule{};
  int grains = 1;  // whose statistics a step's sum holds

  // The slice [begin, end) of the arena; to its end unless given.
  std::size_t begin = 0;
  std::size_t end = std::numeric_limits<std::size_t>::max();
};

// Of Shard::slots(). By the options, not by a slice's parameters: all shards of a run have the same slots.
std::vector<std::string> slotNames(const OptimizerOptions& options);

class Shard {
 public:
  // `weights` are the slice's floats, outlive the shard and hold the first weights already (a moving average
  // starts there). Throws UsageError for options that do not fit the layout.
  Shard(const ParameterLayout& layout, const ShardOptions& options, std::span<float> weights);
  Shard(Shard&&) = default;
  Shard& operator=(Shard&&) = default;

  // Applies the gradient of the arena's floats [offset, offset + gradient.size()), inside the slice, summed
  // over the step's grains. Each float is updated once per step. `rateFactor` is for this update alone. Allocates nothing.
  void update(std::size_t offset, std::span<const float> gradient, Step step, double rateFactor = 1);

  // Everything that must be kept beside the weights to go on later: "momentum" (momentum, nesterov, rmsprop
  // with momentum), "accumulator" (adagrad), "mean_square" (rmsprop), "moment1" and "moment2" (adam),
  // "average". Each has the slice's size, in the arena's order.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  std::vector<Slot> slots();

  // The moving average where one is kept (its statistics are the current ones), otherwise the weights.
  std::span<const float> evaluationWeights() const;

  double learningRate(Step step) const { return options_.learningRate * schedule_.factor(step); }
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return begin_ + weights_.size(); }
  // The same weights are there from now on.
  void moveTo(std::span<float> weights) { weights_ = weights; }

 private:
  // One parameter's part of the slice.
  struct Part {
    std::size_t begin = 0;  // in the arena
    std::size_t end = 0;
    ParameterKind kind = ParameterKind::Weight;
    ParameterCoefficients coefficients;
    float statisticRate = 0;
  };
  struct OwnedSlot {
    std::string name;
    FloatBuffer values;
  };

  void addParts(const ParameterLayout& layout);
  void addSlots();
  float* slotAt(std::size_t slot, std::size_t place);

  OptimizerOptions options_;
  Schedule schedule_;
  std::size_t begin_ = 0;
  std::span<float> weights_;
  float oneOverGrains_ = 1;
  std::vector<Part> parts_;       // tile the slice, in order
  std::vector<OwnedSlot> slots_;  // the rule's, in the order its update expects
  FloatBuffer average_;           // empty where none is kept
};

}  // namespace cohort
