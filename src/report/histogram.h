// Distributions in TensorBoard's usual buckets.
//
// The limits are 0, and 1e-12 · 1.1^n up to 1e20 on both sides of it; the outermost are the largest doubles. A value belongs
// to the bucket with the first limit above it.
#pragma once

#include <span>
#include <vector>

namespace cohort {

struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  // of values that are numbers; others are left out
  double sum = 0;
  double sumSquares = 0;
  // counts[i] values are below limits[i], but not below limits[i - 1]. Neighbouring empty buckets are one, and those above
  // the last value are left out.
  std::vector<double> limits = {};
  std::vector<double> counts = {};
};

// Infinite values and NaN are left out.
Histogram histogramOf(std::span<const float> values);

}  // namespace cohort
