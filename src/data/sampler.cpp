#include "data/sampler.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/permutation.h"

namespace cohort {
namespace {

// The order of an epoch is keyed by the word and the number: "epoch" and eight bytes, the lowest first.
PhiloxKey epochKey(std::uint64_t seed, std::int64_t epoch) {
  std::array<char, 13> name{'e', 'p', 'o', 'c', 'h'};
  for (std::size_t i = 0; i < 8; ++i) {
    name[5 + i] = static_cast<char>(static_cast<std::uint64_t>(epoch) >> (8 * i) & 0xffu);
  }
  return philoxKey(seed, hashName(std::string_view(name.data(), name.size())));
}

// A batch that divides, the nearest to the one asked for.
std::int64_t nearestMultiple(std::int64_t value, std::int64_t divisor) {
  return std::max(divisor, (value + divisor / 2) / divisor * divisor);
}

int largestDivisorUpTo(std::int64_t value, int limit) {
  int divisor = static_cast<int>(std::min<std::int64_t>(limit, value));
  while (value % divisor != 0) --divisor;
  return divisor;
}

void requireValid(const BatchOptions& options) {
  if (options.batchSize < 1 || options.grains < 1) {
    throw UsageError(
        fmt::format("A batch of {} samples in {} grains cannot be made; both must be at least 1.",
                    options.batchSize, options.grains));
  }
  if (options.batchSize % options.grains != 0) {
    throw UsageError(
        fmt::format("A batch of {} samples does not divide into {} equal grains; use a batch of {} or {} "
                    "grains.",
                    options.batchSize, options.grains, nearestMultiple(options.batchSize, options.grains),
                    largestDivisorUpTo(options.batchSize, options.grains)));
  }
}

}  // namespace

GrainBuffer::GrainBuffer(SampleShape shape, std::int64_t samples)
    : sampleSize_(shape.count()),
      images_(sampleSize_ * static_cast<std::size_t>(samples)),
      labels_(static_cast<std::size_t>(samples), kIgnoredLabel) {}

void GrainBuffer::place(std::int64_t position, std::int64_t globalSize) {
  position_ = position;
  globalSize_ = globalSize;
}

void GrainBuffer::put(std::int64_t at, const Dataset& dataset, std::int64_t index) {
  labels_[static_cast<std::size_t>(at)] = dataset.read(index, position_ + at, pixels(at));
}

void GrainBuffer::putPadding(std::int64_t at) {
  std::ranges::fill(pixels(at), 0.0f);
  labels_[static_cast<std::size_t>(at)] = kIgnoredLabel;
}

std::span<float> GrainBuffer::pixels(std::int64_t at) {
  return std::span(images_).subspan(static_cast<std::size_t>(at) * sampleSize_, sampleSize_);
}

BatchSource::BatchSource(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), options_(options) {
  requireValid(options);
}

void BatchSource::fill(Step step, GrainIndex grain, GrainBuffer& buffer) const {
  COHORT_CHECK(step >= 0 && grain >= 0 && grain < options_.grains, "no such grain");
  COHORT_CHECK(buffer.size() == grainSize(), "the buffer does not fit the grain");
  const std::int64_t first = step * options_.batchSize + grain * grainSize();
  const std::int64_t samples = dataset_.size();
  buffer.place(first, options_.batchSize);
  // One stretch per epoch that the grain touches: nearly always one, two at an epoch's end.
  for (std::int64_t at = 0; at < grainSize();) {
    const std::int64_t epoch = (first + at) / samples;
    const std::int64_t start = (first + at) % samples;
    const std::int64_t length = std::min(grainSize() - at, samples - start);
    const KeyedPermutation order(static_cast<std::uint64_t>(samples), epochKey(options_.seed, epoch));
    for (std::int64_t i = 0; i < length; ++i) {
      const auto place = static_cast<std::uint64_t>(start + i);
      buffer.put(at + i, dataset_, static_cast<std::int64_t>(options_.shuffle ? order(place) : place));
    }
    at += length;
  }
}

EvaluationSource::EvaluationSource(const Dataset& dataset, std::int64_t grainSize)
    : dataset_(dataset), grainSize_(grainSize) {
  if (grainSize < 1) {
    throw UsageError(
        fmt::format("An evaluation grain of {} samples cannot be made; use at least 1.", grainSize));
  }
}

void EvaluationSource::fill(std::int64_t grain, GrainBuffer& buffer) const {
  COHORT_CHECK(grain >= 0 && grain < grains(), "no such evaluation grain");
  COHORT_CHECK(buffer.size() == grainSize_, "the buffer does not fit the grain");
  const std::int64_t first = grain * grainSize_;
  const std::int64_t present = std::min(grainSize_, dataset_.size() - first);
  buffer.place(first, dataset_.size());
  for (std::int64_t i = 0; i < present; ++i) buffer.put(i, dataset_, first + i);
  for (std::int64_t i = present; i < grainSize_; ++i) buffer.putPadding(i);
}

}  // namespace cohort
