// base ^ exponent by repeated squaring: plain multiplications have the same bits on every machine, which the
// library's pow does not promise.
#pragma once

#include <cstdint>

namespace cohort {

inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace cohort
