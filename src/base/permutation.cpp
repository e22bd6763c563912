#include "base/permutation.h"

#include <bit>

#include "base/error.h"

namespace cohort {
namespace {
constexpr int kRounds = 6;
}

KeyedPermutation::KeyedPermutation(std::uint64_t n, PhiloxKey key) : n_(n), key_(key) {
  COHORT_CHECK(n >= 1, "a permutation needs at least one element");
  const int bits = static_cast<int>(std::bit_width(n - 1));
  halfBits_ = bits < 2 ? 1 : (bits + 1) / 2;
  halfMask_ = (std::uint64_t{1} << halfBits_) - 1;
}

std::uint64_t KeyedPermutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> halfBits_;
  std::uint64_t right = value & halfMask_;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock mixed = philox(key_, {static_cast<std::uint32_t>(right),
                                            static_cast<std::uint32_t>(right >> 32), round, 0x46656973u});
    const std::uint64_t next = left ^ ((std::uint64_t{mixed[1]} << 32 | mixed[0]) & halfMask_);
    left = right;
    right = next;
  }
  return left << halfBits_ | right;
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t index) const {
  COHORT_CHECK(index < n_, "index outside the permutation");
  // Cycle walking: the network permutes a power of two below 4n, so a few steps suffice on average.
  std::uint64_t value = encrypt(index);
  while (value >= n_) value = encrypt(value);
  return value;
}

}  // namespace cohort
