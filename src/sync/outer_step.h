// The arithmetic of averaging workers' weights, for whoever has brought their changes together:
//
//   change  = sum of the workers' changes since the last averaging / workers
//   outer   <- momentum * outer + change
//   weights <- weights at the last averaging + rate * (change + momentum * outer)
//
// Running statistics are averaged only. Pure; the same bits however the arena is cut into stretches.
#pragma once

#include <cstddef>
#include <span>

#include "base/parameter.h"

namespace cohort {

struct OuterStep {
  int workers = 1;
  double rate = 1;
  double momentum = 0;

  // One worker's mean is what it has already.
  bool isNothing() const { return workers == 1 && rate == 1 && momentum == 0; }
};

// Of the arena's floats [offset, offset + sum.size()). `weights` is an arena of the last averaging's; `outer` another, or empty without
// momentum.
void applyOuterStep(const ParameterLayout& layout, const OuterStep& step, std::size_t offset,
                    std::span<const float> sum, std::span<float> weights, std::span<float> outer);

}  // namespace cohort
