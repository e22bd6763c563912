#include "data/synthetic.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace cohort {
namespace {

// Variances: pattern 1/4, noise 3/4. A triangle wave in [-1, 1] has variance 1/3, a product of two 1/9; the
// sum of two uniforms on {0 … 65535} has variance 2 * (65536^2 - 1) / 12.
constexpr float kPatternScale = 1.5f;
constexpr float kNoiseScale = 0.8660254f / 26754.961f;

// A triangle wave with a whole number of periods; positions in 2^-32 of a period, which wrap by themselves.
struct Wave {
  std::uint32_t phase;
  std::uint32_t step;

  float at(std::uint32_t position) const {
    const auto turned = static_cast<std::int32_t>(phase + position * step);
    const std::int32_t folded = turned ^ (turned >> 31);  // [0, 2^31)
    return static_cast<float>(folded) * 0x1p-30f - 1.0f;
  }
};

Wave makeWave(std::uint32_t phase, std::uint32_t periods, int extent) {
  return {phase,
          static_cast<std::uint32_t>((std::uint64_t{periods} << 32) / static_cast<std::uint64_t>(extent))};
}

// Scrambles a counter under a key: multiplications and shifts alone, so that compilers vectorise it. Philox
// would cost several nanoseconds per pixel.
std::uint32_t scramble(std::uint32_t counter, PhiloxKey key) {
  std::uint32_t x = counter * 0x9e3779b1u + key.low;
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x += key.high;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}

void renderRow(float rowValue, Wave across, std::uint32_t firstPixel, PhiloxKey noiseKey,
               std::span<float> row) {
  const auto width = static_cast<std::uint32_t>(row.size());
  float* const out = row.data();
  for (std::uint32_t x = 0; x < width; ++x) {
    const std::uint32_t bits = scramble(firstPixel + x, noiseKey);
    const auto noise = static_cast<std::int32_t>((bits & 0xffffu) + (bits >> 16)) - 65535;
    out[x] = rowValue * across.at(x) + static_cast<float>(noise) * kNoiseScale;
  }
}

void requireValid(const SyntheticOptions& options) {
  constexpr int kLargestExtent = 1 << 15;
  const SampleShape& shape = options.shape;
  for (const int extent : {shape.channels, shape.height, shape.width}) {
    if (extent >= 1 && extent <= kLargestExtent) continue;
    throw UsageError(fmt::format(
        "Synthetic images of {} channels and {}x{} pixels cannot be made; give sizes from 1 to {}.",
        shape.channels, shape.height, shape.width, kLargestExtent));
  }
  if (options.classes < 1) {
    throw UsageError(fmt::format("Synthetic data needs at least 1 class, not {}.", options.classes));
  }
  if (options.size < 1) {
    throw UsageError(fmt::format("Synthetic data needs at least 1 sample, not {}.", options.size));
  }
}

}  // namespace

SyntheticDataset::SyntheticDataset(const SyntheticOptions& options)
    : options_(options),
      patternKey_(philoxKey(options.seed, hashName("synthetic pattern"))),
      noiseKey_(philoxKey(options.seed, hashName("synthetic noise"))) {
  requireValid(options);
}

std::int32_t SyntheticDataset::read(std::int64_t index, std::int64_t, std::span<float> pixels) const {
  const SampleShape& shape = options_.shape;
  COHORT_CHECK(index >= 0 && index < size() && pixels.size() == shape.count(),
               "no such sample, or no room for it");
  const auto label = static_cast<std::int32_t>(index % options_.classes);
  const auto number = static_cast<std::uint64_t>(index);
  const PhiloxBlock noise =
      philox(noiseKey_, {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                         options_.split == Split::Train  ? 0u
                         : options_.split == Split::Test ? 1u
                                                         : 2u,
                         0});
  const auto width = static_cast<std::size_t>(shape.width);
  std::size_t at = 0;
  for (int channel = 0; channel < shape.channels; ++channel) {
    const PhiloxBlock bits =
        philox(patternKey_, {static_cast<std::uint32_t>(label), static_cast<std::uint32_t>(channel), 0, 0});
    const Wave down = makeWave(bits[0], 1 + bits[2] % 3, shape.height);
    const Wave across = makeWave(bits[1], 1 + bits[3] % 3, shape.width);
    for (int y = 0; y < shape.height; ++y, at += width) {
      const float rowValue = kPatternScale * down.at(static_cast<std::uint32_t>(y));
      renderRow(rowValue, across, static_cast<std::uint32_t>(at), {noise[0], noise[1]},
                pixels.subspan(at, width));
    }
  }
  return label;
}

}  // namespace cohort
