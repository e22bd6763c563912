// A keyed permutation of [0, n): a balanced Feistel network over the next even power of two, walked until it
// lands inside [0, n). Computed, not stored: the order of an epoch is a function of its key alone.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace cohort {

class KeyedPermutation {
 public:
  // n >= 1. Different keys give unrelated permutations.
  KeyedPermutation(std::uint64_t n, PhiloxKey key);

  // index in [0, n) -> its place in [0, n), a bijection.
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t n_;
  PhiloxKey key_;
  int halfBits_;
  std::uint64_t halfMask_;
};

}  // namespace cohort
