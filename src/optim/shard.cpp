#include "optim/shard.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "optim/power.h"
#include "optim/update.h"

namespace cohort {
namespace {

// Of the rule's own slots, in the order in which update.h takes them.
std::vector<std::string> ruleSlotNames(const OptimizerOptions& options) {
  const bool anyMomentum =
      momentumOf(options) > 0 ||
      std::ranges::any_of(options.rules, [](const ParamRule& rule) { return rule.momentum.value_or(0) > 0; });
  switch (options.kind) {
    case OptimizerKind::Sgd:
      return {};
    case OptimizerKind::Momentum:
    case OptimizerKind::Nesterov:
      return {"momentum"};
    case OptimizerKind::Adagrad:
      return {"accumulator"};
    case OptimizerKind::RmsProp:
      if (anyMomentum) return {"mean_square", "momentum"};
      return {"mean_square"};
    case OptimizerKind::Adam:
      return {"moment1", "moment2"};
  }
  return {};
}

// What all parameters share in one step.
UpdateCoefficients stepCoefficients(const OptimizerOptions& options, Step step) {
  UpdateCoefficients shared;
  const Step updates = step + 1;
  shared.epsilon = static_cast<float>(epsilonOf(options));
  shared.secondRate = static_cast<float>(1 - options.rmsDecay);
  if (options.kind == OptimizerKind::Adam) {
    shared.firstRate = static_cast<float>(1 - options.beta1);
    shared.secondRate = static_cast<float>(1 - options.beta2);
    shared.rootScale = static_cast<float>(1 / std::sqrt(1 - power(options.beta2, updates)));
  }
  const auto t = static_cast<double>(updates);
  shared.averageRate = static_cast<float>(1 - std::min(options.averageDecay, (1 + t) / (10 + t)));
  return shared;
}

}  // namespace

std::vector<std::string> slotNames(const OptimizerOptions& options) {
  std::vector<std::string> names = ruleSlotNames(options);
  if (options.averageDecay > 0) names.emplace_back("average");
  return names;
}

Shard::Shard(const ParameterLayout& layout, const ShardOptions& options, std::span<float> weights)
    : options_(options.optimizer),
      schedule_(options.schedule),
      begin_(options.begin),
      weights_(weights),
      oneOverGrains_(static_cast<float>(1.0 / options.grains)) {
  const std::size_t end = std::min(options.end, layout.size());
  COHORT_CHECK(options.grains >= 1, "a step has at least one grain");
  COHORT_CHECK(begin_ <= end && weights.size() == end - begin_, "the weights do not fit the slice");
  addParts(layout);
  addSlots();
}

void Shard::addParts(const ParameterLayout& layout) {
  const std::vector<ParameterCoefficients> coefficients = parameterCoefficients(options_, layout);
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    const std::size_t partBegin = std::max(parameter.offset, begin());
    const std::size_t partEnd = std::min(parameter.offset + parameter.size, end());
    if (partBegin >= partEnd) continue;
    parts_.push_back({partBegin, partEnd, parameter.kind, coefficients[i],
                      static_cast<float>(1 - static_cast<double>(parameter.statisticDecay))});
  }
}

void Shard::addSlots() {
  for (std::string& name : ruleSlotNames(options_)) {
    slots_.push_back({std::move(name), FloatBuffer(weights_.size())});
  }
  if (options_.kind == OptimizerKind::Adagrad) {
    std::ranges::fill(slots_[0].values.span(), static_cast<float>(options_.adagradInitial));
  }
  if (options_.averageDecay > 0) {
    average_ = FloatBuffer(weights_.size());
    std::ranges::copy(weights_, average_.data());
  }
}

float* Shard::slotAt(std::size_t slot, std::size_t place) {
  return slot < slots_.size() ? slots_[slot].values.data() + place : nullptr;
}

void Shard::update(std::size_t offset, std::span<const float> gradient, Step step, double rateFactor) {
  const std::size_t stop = offset + gradient.size();
  COHORT_CHECK(offset >= begin() && stop <= end(), "a gradient lies outside of the shard's slice");
  UpdateCoefficients coefficients = stepCoefficients(options_, step);
  double rate = learningRate(step) * rateFactor;
  if (options_.kind == OptimizerKind::Adam) rate /= 1 - power(options_.beta1, step + 1);

  auto part = std::ranges::upper_bound(parts_, offset, {}, &Part::end);
  for (std::size_t at = offset; at < stop; at = part++->end) {
    const std::size_t place = at - begin_;
    const Stretch stretch{.size = std::min(part->end, stop) - at,
                          .weights = weights_.data() + place,
                          .gradient = gradient.data() + (at - offset),
                          .first = slotAt(0, place),
                          .second = slotAt(1, place),
                          .average = average_.size() == 0 ? nullptr : average_.data() + place};
    if (part->kind == ParameterKind::RunningStatistic) {
      applyStatistic(part->statisticRate, oneOverGrains_, stretch);
      continue;
    }
    coefficients.learningRate = static_cast<float>(rate * part->coefficients.learningRate);
    coefficients.momentum = static_cast<float>(part->coefficients.momentum);
    coefficients.decay = static_cast<float>(part->coefficients.decay);
    applyUpdate(options_.kind, coefficients, stretch);
  }
}

std::vector<Shard::Slot> Shard::slots() {
  std::vector<Slot> all;
  for (OwnedSlot& slot : slots_) all.push_back({slot.name, slot.values.span()});
  if (average_.size() > 0) all.push_back({"average", average_.span()});
  return all;
}

std::span<const float> Shard::evaluationWeights() const {
  return average_.size() > 0 ? average_.span() : std::span<const float>(weights_);
}

}  // namespace cohort
