// Counter-based random numbers: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). A block of four 32-bit numbers is a pure function of (key, counter), so no generator
// state exists, none needs saving, and any number can be computed anywhere, in any order.
#pragma once

#include <array>
#include <cstdint>

namespace cohort {

using PhiloxBlock = std::array<std::uint32_t, 4>;

struct PhiloxKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

inline constexpr int kPhiloxRounds = 10;

// By reference to four words, so that a loop over many blocks vectorises.
inline void philoxRound(PhiloxKey key, std::uint32_t& w0, std::uint32_t& w1, std::uint32_t& w2,
                        std::uint32_t& w3) {
  const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * w0;
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * w2;
  w0 = static_cast<std::uint32_t>(product1 >> 32) ^ w1 ^ key.low;
  w1 = static_cast<std::uint32_t>(product1);
  w2 = static_cast<std::uint32_t>(product0 >> 32) ^ w3 ^ key.high;
  w3 = static_cast<std::uint32_t>(product0);
}

// The key of the round after.
inline PhiloxKey nextPhiloxKey(PhiloxKey key) {
  return {key.low + 0x9E3779B9u, key.high + 0xBB67AE85u};
}

inline PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < kPhiloxRounds; ++round, key = nextPhiloxKey(key)) {
    philoxRound(key, counter[0], counter[1], counter[2], counter[3]);
  }
  return counter;
}

// A key for one purpose: `purpose` separates streams (a layer's dropout, a parameter's initial values, …).
inline PhiloxKey philoxKey(std::uint64_t seed, std::uint64_t purpose) {
  const PhiloxBlock mixed = philox({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
                                   {static_cast<std::uint32_t>(purpose),
                                    static_cast<std::uint32_t>(purpose >> 32), 0x636f686fu, 0x72740000u});
  return {mixed[0], mixed[1]};
}

// Uniform in [0, 1), exact in single precision (24 bits).
inline float uniformFloat(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

}  // namespace cohort
