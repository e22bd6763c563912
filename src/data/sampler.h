// Which samples a grain has: pure functions of (seed, step, grain), so that no sampler state exists and any
// worker can make any grain at any time.
//
// The words: a *position* p = step * batchSize + i counts all samples of a run in order; its *epoch* is p div
// n for n samples; the sample is permute(epoch)(p mod n). Batches run across epoch ends, so no short batch
// exists, and every sample is seen exactly once per epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/batch.h"
#include "data/dataset.h"

namespace cohort {

// Room for one grain; filled again and again. Used by one thread at a time.
class GrainBuffer {
 public:
  GrainBuffer(SampleShape shape, std::int64_t samples);

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  // Valid as long as the buffer lives; its contents until the next fill.
  Batch batch() const { return {images_, labels_, position_, globalSize_}; }

  // For those who fill it.
  void place(std::int64_t position, std::int64_t globalSize);
  void put(std::int64_t at, const Dataset& dataset, std::int64_t index);
  void putPadding(std::int64_t at);

 private:
  std::span<float> pixels(std::int64_t at);

  std::size_t sampleSize_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
  std::int64_t position_ = 0;
  std::int64_t globalSize_ = 0;
};

struct BatchOptions {
  std::int64_t batchSize = 0;  // samples in a step, all grains together
  int grains = 1;              // must divide the batch
  std::uint64_t seed = 0;
  bool shuffle = true;
};

// The training samples. Thread-safe for different buffers; keeps a reference to the dataset.
class BatchSource {
 public:
  // UsageError where the batch does not divide into grains.
  BatchSource(const Dataset& dataset, const BatchOptions& options);

  std::int64_t batchSize() const { return options_.batchSize; }
  std::int64_t grainSize() const { return options_.batchSize / options_.grains; }
  GrainBuffer makeBuffer() const { return {dataset_.shape(), grainSize()}; }
  // Allocates nothing. `buffer` has grainSize() samples.
  void fill(Step step, GrainIndex grain, GrainBuffer& buffer) const;

 private:
  const Dataset& dataset_;
  BatchOptions options_;
};

// The fixed cut of an evaluation: grain g has the samples [g * size, (g + 1) * size) in index order; the last
// one is filled up with zero pixels and kIgnoredLabel. Thread-safe for different buffers.
class EvaluationSource {
 public:
  EvaluationSource(const Dataset& dataset, std::int64_t grainSize);

  std::int64_t grains() const { return (dataset_.size() + grainSize_ - 1) / grainSize_; }
  std::int64_t grainSize() const { return grainSize_; }
  GrainBuffer makeBuffer() const { return {dataset_.shape(), grainSize_}; }
  // Allocates nothing. The batch's global size is the dataset's.
  void fill(std::int64_t grain, GrainBuffer& buffer) const;

 private:
  const Dataset& dataset_;
  std::int64_t grainSize_;
};

}  // namespace cohort
