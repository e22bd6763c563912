#include "optim/update.h"

#include <cmath>

namespace cohort {
namespace {

// Moves a value towards a target: d * value + (1 - d) * target with rate = 1 - d. In this form the target is
// a fixed point even after rounding, which matters where d is close to 1.
inline float approach(float value, float target, float rate) {
  return value + rate * (target - value);
}

// Each rule: how many slots it has, and what it takes away from a weight for the gradient g.
struct SgdRule {
  static constexpr int kSlots = 0;
  static float change(const UpdateCoefficients& c, float g) { return c.learningRate * g; }
};

struct MomentumRule {
  static constexpr int kSlots = 1;
  static float change(const UpdateCoefficients& c, float g, float& velocity) {
    velocity = c.momentum * velocity + g;
    return c.learningRate * velocity;
  }
};

struct NesterovRule {
  static constexpr int kSlots = 1;
  static float change(const UpdateCoefficients& c, float g, float& velocity) {
    velocity = c.momentum * velocity + g;
    return c.learningRate * (g + c.momentum * velocity);
  }
};

struct AdagradRule {
  static constexpr int kSlots = 1;
  static float change(const UpdateCoefficients& c, float g, float& accumulator) {
    accumulator += g * g;
    return c.learningRate * g / std::sqrt(accumulator);
  }
};

struct RmsPropRule {
  static constexpr int kSlots = 1;
  static float change(const UpdateCoefficients& c, float g, float& meanSquare) {
    meanSquare = approach(meanSquare, g * g, c.secondRate);
    return c.learningRate * g / std::sqrt(meanSquare + c.epsilon);
  }
};

struct RmsPropMomentumRule {
  static constexpr int kSlots = 2;
  static float change(const UpdateCoefficients& c, float g, float& meanSquare, float& velocity) {
    velocity = c.momentum * velocity + RmsPropRule::change(c, g, meanSquare);
    return velocity;
  }
};

struct AdamRule {
  static constexpr int kSlots = 2;
  static float change(const UpdateCoefficients& c, float g, float& moment1, float& moment2) {
    moment1 = approach(moment1, g, c.firstRate);
    moment2 = approach(moment2, g * g, c.secondRate);
    return c.learningRate * moment1 / (std::sqrt(moment2) * c.rootScale + c.epsilon);
  }
};

// The arrays as parameters: there the compiler trusts that they do not overlap.
template <typename Rule, bool kAverage>
void sweep(const UpdateCoefficients c, std::size_t size, float* __restrict weights,
           const float* __restrict gradient, [[maybe_unused]] float* __restrict first,
           [[maybe_unused]] float* __restrict second, [[maybe_unused]] float* __restrict average) {
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradient[i] + c.decay * weights[i];
    if constexpr (Rule::kSlots == 0) {
      weights[i] -= Rule::change(c, g);
    } else if constexpr (Rule::kSlots == 1) {
      weights[i] -= Rule::change(c, g, first[i]);
    } else {
      weights[i] -= Rule::change(c, g, first[i], second[i]);
    }
    if constexpr (kAverage) average[i] = approach(average[i], weights[i], c.averageRate);
  }
}

template <typename Rule>
void run(const UpdateCoefficients& c, const Stretch& s) {
  const auto loop = s.average != nullptr ? sweep<Rule, true> : sweep<Rule, false>;
  loop(c, s.size, s.weights, s.gradient, s.first, s.second, s.average);
}

}  // namespace

void applyUpdate(OptimizerKind kind, const UpdateCoefficients& coefficients, const Stretch& stretch) {
  switch (kind) {
    case OptimizerKind::Sgd:
      return run<SgdRule>(coefficients, stretch);
    case OptimizerKind::Momentum:
      return run<MomentumRule>(coefficients, stretch);
    case OptimizerKind::Nesterov:
      return run<NesterovRule>(coefficients, stretch);
    case OptimizerKind::Adagrad:
      return run<AdagradRule>(coefficients, stretch);
    case OptimizerKind::RmsProp:
      if (stretch.second == nullptr) return run<RmsPropRule>(coefficients, stretch);
      return run<RmsPropMomentumRule>(coefficients, stretch);
    case OptimizerKind::Adam:
      return run<AdamRule>(coefficients, stretch);
  }
}

void applyStatistic(float rate, float oneOverGrains, const Stretch& stretch) {
  for (std::size_t i = 0; i < stretch.size; ++i) {
    const float value = approach(stretch.weights[i], stretch.gradient[i] * oneOverGrains, rate);
    stretch.weights[i] = value;
    if (stretch.average != nullptr) stretch.average[i] = value;
  }
}

}  // namespace cohort
