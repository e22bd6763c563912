// Floats as 16 bits for the wire: one power of two for the whole stretch, so that its largest value uses the format's range,
// then a half-precision number for each. A number keeps 11 bits; NaN and infinities stay what they are.
//
//   message := exponent (32 bits) numbers (16 bits each), each number times 2^exponent
#pragma once

#include <cstddef>
#include <span>

namespace cohort {

constexpr std::size_t halfBytes(std::size_t floats) {
  return 4 + 2 * floats;
}

// `message` has halfBytes(values.size()) bytes, at any address.
void encodeHalf(std::span<const float> values, std::span<std::byte> message);
void decodeHalf(std::span<const std::byte> message, std::span<float> values);

}  // namespace cohort
