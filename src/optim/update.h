// The inner loops of the update rules (the formulas are in optimizer.h): plain arithmetic on one stretch of
// one parameter, element by element, so that the bits do not depend on where a stretch begins or ends.
#pragma once

#include <cstddef>

#include "optim/optimizer.h"

namespace cohort {

// Arrays that do not overlap. Slots that the rule does not have are null: first is its velocity, accumulator,
// mean square or first moment, second is rmsprop's velocity or adam's second moment.
struct Stretch {
  std::size_t size = 0;
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float* average = nullptr;  // null: none is kept
};

struct UpdateCoefficients {
  float learningRate = 0;  // adam's includes 1 / (1 - beta1^t)
  float momentum = 0;
  float decay = 0;
  float firstRate = 0;   // adam: 1 - beta1
  float secondRate = 0;  // adam: 1 - beta2; rmsprop: 1 - its decay
  float rootScale = 1;   // adam: 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
  float averageRate = 0;  // 1 - the average's decay
};

void applyUpdate(OptimizerKind kind, const UpdateCoefficients& coefficients, const Stretch& stretch);

// value += rate * (sum / grains - value), into `average` too where one is kept.
void applyStatistic(float rate, float oneOverGrains, const Stretch& stretch);

}  // namespace cohort
