#include "sync/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace cohort {
namespace {

// The largest value becomes at least 2^14 and less than 2^15.
constexpr int kLargestExponent = 14;

// Round to nearest, ties to even, as the processors do.
std::uint16_t halfOf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to infinity
  if (magnitude < 0x38800000U) {  // below the normal numbers
    const float shifted =
        std::bit_cast<float>(magnitude) + std::bit_cast<float>(0x3f000000U);  // + 0.5: rounds at 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t odd = magnitude >> 13U & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13U));
}

float floatOf(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13U);
  if (magnitude < 0x400U) {
    return std::bit_cast<float>(sign |
                                std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13U) + 0x38000000U));
}

void toHalves(const float* values, std::size_t count, float factor, std::byte* halves) {
  std::size_t i = 0;
#if defined(__F16C__)
  const __m256 factors = _mm256_set1_ps(factor);
  for (; i + 8 <= count; i += 8) {
    const __m128i eight =
        _mm256_cvtps_ph(_mm256_mul_ps(_mm256_loadu_ps(values + i), factors), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + 2 * i), eight);
  }
#endif
  for (; i < count; ++i) {
    const std::uint16_t half = halfOf(values[i] * factor);
    std::memcpy(halves + 2 * i, &half, sizeof half);
  }
}

void toFloats(const std::byte* halves, std::size_t count, float factor, float* values) {
  std::size_t i = 0;
#if defined(__F16C__)
  const __m256 factors = _mm256_set1_ps(factor);
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i));
    _mm256_storeu_ps(values + i, _mm256_mul_ps(_mm256_cvtph_ps(eight), factors));
  }
#endif
  for (; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, halves + 2 * i, sizeof half);
    values[i] = floatOf(half) * factor;
  }
}

}  // namespace

void encodeHalf(std::span<const float> values, std::span<std::byte> message) {
  float largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::isfinite(value) ? std::fabs(value) : 0.0F);
  // Within the powers of two that a float has, both ways.
  const std::int32_t exponent =
      largest > 0 ? std::clamp(std::ilogb(largest) - kLargestExponent, -126, 126) : 0;
  std::memcpy(message.data(), &exponent, sizeof exponent);
  toHalves(values.data(), values.size(), std::ldexp(1.0F, -exponent), message.data() + sizeof exponent);
}

void decodeHalf(std::span<const std::byte> message, std::span<float> values) {
  std::int32_t exponent = 0;
  std::memcpy(&exponent, message.data(), sizeof exponent);
  toFloats(message.data() + sizeof exponent, values.size(), std::ldexp(1.0F, exponent), values.data());
}

}  // namespace cohort
