// The arena cut for the wire. A bucket is a stretch of about 4 MB in the order in which backward finishes it: some pieces, or
// a part of a large one. Larger messages would leave the processor's cache, and smaller ones cost more each. Every worker
// owns one slice of each bucket, so that all have the same to do at the same time.
//
// A value: it depends on the layout, the pieces it is for and the number of workers alone.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/parameter.h"

namespace cohort {

// Whose the arena is: by worker, its slices in order.
using Ownership = std::vector<std::vector<ArenaRange>>;

class BucketPlan {
 public:
  static constexpr std::size_t kBucketFloats = std::size_t{1} << 20;

  BucketPlan(const ParameterLayout& layout, int workers, std::size_t bucketFloats = kBucketFloats);
  // Of the pieces of some parameters.
  BucketPlan(const ParameterLayout& layout, int workers, const std::function<bool(ParameterIndex)>& isFor,
             std::size_t bucketFloats = kBucketFloats);

  int count() const { return static_cast<int>(buckets_.size()); }
  int workers() const { return workers_; }
  ArenaRange bucket(int index) const { return buckets_[static_cast<std::size_t>(index)]; }
  // The worker's part; may be empty.
  ArenaRange slice(int index, int worker) const;
  // All that a worker owns, in order: neighbours are one.
  std::vector<ArenaRange> slicesOf(int worker) const;
  Ownership ownership() const;

  // The buckets [first, last) that a piece has floats in (none of another plan's), and how many pieces have floats in a bucket.
  struct Range {
    int first = 0;
    int last = 0;
  };
  Range bucketsOf(PieceIndex piece) const { return bucketsOf_[static_cast<std::size_t>(piece)]; }
  int piecesIn(int index) const { return piecesIn_[static_cast<std::size_t>(index)]; }

 private:
  int workers_;
  std::vector<ArenaRange> buckets_;
  std::vector<Range> bucketsOf_;
  std::vector<int> piecesIn_;
};

}  // namespace cohort
