// One grain's samples, or those of a round of grains that workers compute together, as a model sees them.
#pragma once

#include <cstdint>
#include <span>

namespace cohort {

using Step = std::int64_t;
using GrainIndex = int;

// A sample with this label is padding: it adds nothing to the loss, the counts or the gradient.
inline constexpr std::int32_t kIgnoredLabel = -1;

struct Batch {
  std::span<const float> images;         // [samples, channels, height, width], plain
  std::span<const std::int32_t> labels;  // [samples]
  // The first sample's position in the run, p = step * global batch + index; sample i has position p + i.
  // Keys all randomness.
  std::int64_t position = 0;
  // Samples in the whole step, all grains together: what a mean loss divides by.
  std::int64_t globalSize = 0;
  // Grains of the round that there are; the others, which come behind, are padding.
  int grains = 1;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

}  // namespace cohort
