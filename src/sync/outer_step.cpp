#include "sync/outer_step.h"

#include <algorithm>

namespace cohort {

void applyOuterStep(const ParameterLayout& layout, const OuterStep& step, std::size_t offset,
                    std::span<const float> sum, std::span<float> weights, std::span<float> outer) {
  const auto count = static_cast<float>(step.workers);
  const auto rate = static_cast<float>(step.rate);
  const auto momentum = static_cast<float>(step.momentum);
  for (const Parameter& parameter : layout.parameters()) {
    const std::size_t begin = std::max(parameter.offset, offset);
    const std::size_t end = std::min(parameter.offset + parameter.size, offset + sum.size());
    const bool isPlain = parameter.kind != ParameterKind::Weight || (rate == 1 && momentum == 0);
    for (std::size_t i = begin; i < end; ++i) {
      const float change = sum[i - offset] / count;
      if (isPlain) {
        weights[i] += change;
      } else if (momentum == 0) {
        weights[i] += rate * change;
      } else {
        outer[i] = momentum * outer[i] + change;
        weights[i] += rate * (change + momentum * outer[i]);
      }
    }
  }
}

}  // namespace cohort
