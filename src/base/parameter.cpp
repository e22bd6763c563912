#include "base/parameter.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace cohort {
namespace {

// A matrix is finished in groups of this many rows when it is larger than kSplitAbove. Fewer rows than about
// 400 make oneDNN's AVX2 GEMM pack its other operand too often (40 instead of 90 GFLOP/s at K = 9216, batch
// 32).
constexpr std::size_t kPieceRows = 512;
constexpr std::size_t kSplitAbove = std::size_t{1} << 21;  // floats

std::size_t pieceSize(const Parameter& parameter) {
  if (!parameter.rowsMayFinishApart || parameter.size <= kSplitAbove) return parameter.size;
  const std::size_t rowSize = parameter.size / static_cast<std::size_t>(parameter.shape.front());
  return std::min(parameter.size, kPieceRows * rowSize);
}

constexpr std::size_t kFillChunk = std::size_t{1}
                                   << 18;  // floats; a multiple of 4, so that blocks never straddle

// kWide blocks at once, for the counters first, first + 1, …: the same numbers as philox(), in loops that vectorise.
// words[w][i] is word w of block i.
constexpr std::size_t kWide = 64;
using WideBlocks = std::uint32_t[4][kWide];

void philoxWide(PhiloxKey key, std::uint64_t first, WideBlocks& words) {
  for (std::size_t i = 0; i < kWide; ++i) {
    words[0][i] = static_cast<std::uint32_t>(first + i);
    words[1][i] = static_cast<std::uint32_t>((first + i) >> 32);
    words[2][i] = 0;
    words[3][i] = 0;
  }
  for (int round = 0; round < kPhiloxRounds; ++round, key = nextPhiloxKey(key)) {
    for (std::size_t i = 0; i < kWide; ++i) {
      philoxRound(key, words[0][i], words[1][i], words[2][i], words[3][i]);
    }
  }
}

// value = f(its own block) for every value.
void fillNormal(PhiloxKey key, std::size_t first, std::span<float> values, float standardDeviation) {
  // The sum of eight uniforms on {0 … 65535} has mean 8 * 32767.5 and variance 8 * (65536^2 - 1) / 12.
  constexpr float kMean = 8 * 32767.5f;
  constexpr float kDeviation = 53509.9215f;
  const float scale = standardDeviation / kDeviation;
  WideBlocks words;
  for (std::size_t at = 0; at < values.size(); at += kWide) {
    philoxWide(key, first + at, words);
    float bells[kWide];
    for (std::size_t i = 0; i < kWide; ++i) {
      std::uint32_t sum = 0;
      for (const auto& word : words) sum += (word[i] & 0xffffu) + (word[i] >> 16);
      bells[i] = (static_cast<float>(static_cast<std::int32_t>(sum)) - kMean) * scale;
    }
    std::copy_n(bells, std::min(kWide, values.size() - at), values.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

// Four values from each block.
void fillUniform(PhiloxKey key, std::size_t first, std::span<float> values, float halfWidth) {
  WideBlocks words;
  for (std::size_t at = 0; at < values.size(); at += 4 * kWide) {
    philoxWide(key, (first + at) / 4, words);
    float numbers[4 * kWide];
    for (std::size_t i = 0; i < kWide; ++i) {
      for (std::size_t w = 0; w < 4; ++w)
        numbers[4 * i + w] = (2.0f * uniformFloat(words[w][i]) - 1.0f) * halfWidth;
    }
    std::copy_n(numbers, std::min(4 * kWide, values.size() - at),
                values.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void fill(const Parameter& parameter, PhiloxKey key, std::size_t first, std::span<float> values) {
  switch (parameter.initializer.kind) {
    case Initializer::Kind::Constant:
      std::ranges::fill(values, parameter.initializer.scale);
      return;
    case Initializer::Kind::Normal:
      fillNormal(key, first, values, parameter.initializer.scale);
      return;
    case Initializer::Kind::Uniform:
      fillUniform(key, first, values, parameter.initializer.scale);
      return;
  }
}

}  // namespace

std::size_t ParameterSpec::count() const {
  std::size_t product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<std::size_t>(extent);
  return product;
}

ParameterLayout::ParameterLayout(std::vector<ParameterSpec> specs) {
  parameters_.reserve(specs.size());
  for (ParameterSpec& spec : specs) add({std::move(spec), size_});
}

ParameterLayout::ParameterLayout(std::vector<Part> parts, std::size_t size) {
  parameters_.reserve(parts.size());
  for (Part& part : parts) add(std::move(part));
  COHORT_CHECK(size_ <= size, "a part lies in the arena");
  size_ = size;
}

void ParameterLayout::add(Part part) {
  COHORT_CHECK(find(part.spec.name) < 0, "two parameters are called " + part.spec.name);
  COHORT_CHECK(part.offset >= size_, "parameters lie in order");
  Parameter parameter{std::move(part.spec)};
  parameter.offset = part.offset;
  parameter.size = parameter.count();
  parameter.firstPiece = static_cast<PieceIndex>(pieces_.size());
  const std::size_t step = pieceSize(parameter);
  COHORT_CHECK(step > 0, "a parameter without elements: " + parameter.name);
  for (std::size_t at = 0; at < parameter.size; at += step) {
    const std::size_t size = std::min(step, parameter.size - at);
    pieces_.push_back({static_cast<ParameterIndex>(parameters_.size()), parameter.offset + at, size});
    largestPiece_ = std::max(largestPiece_, size);
  }
  parameter.pieceCount = static_cast<int>(pieces_.size()) - parameter.firstPiece;
  size_ = parameter.offset + parameter.size;
  if (parameter.kind == ParameterKind::Weight) weightCount_ += parameter.size;
  parameters_.push_back(std::move(parameter));
}

ParameterIndex ParameterLayout::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return found == parameters_.end() ? -1 : static_cast<ParameterIndex>(found - parameters_.begin());
}

void initialize(const ParameterLayout& layout, std::uint64_t seed, std::span<float> values, int threads) {
  COHORT_CHECK(values.size() == layout.size(), "the arena does not fit the layout");
  const auto fillShare = [&](std::size_t share) {
    std::size_t chunk = 0;
    for (const Parameter& parameter : layout.parameters()) {
      const PhiloxKey key = philoxKey(seed, hashName(parameter.name));
      for (std::size_t first = 0; first < parameter.size; first += kFillChunk, ++chunk) {
        if (chunk % static_cast<std::size_t>(threads) != share) continue;
        fill(parameter, key, first,
             values.subspan(parameter.offset + first, std::min(kFillChunk, parameter.size - first)));
      }
    }
  };
  std::vector<std::jthread> others;
  if (layout.size() <= kFillChunk) threads = 1;
  for (int share = 1; share < threads; ++share) {
    others.emplace_back(fillShare, static_cast<std::size_t>(share));
  }
  fillShare(0);
}

}  // namespace cohort
