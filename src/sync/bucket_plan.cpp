#include "sync/bucket_plan.h"

#include <algorithm>

#include "base/error.h"

namespace cohort {
namespace {

// Slices begin at whole cache lines.
constexpr std::size_t kLineFloats = 16;

}  // namespace

BucketPlan::BucketPlan(const ParameterLayout& layout, int workers, std::size_t bucketFloats)
    : BucketPlan(
          layout, workers, [](ParameterIndex) { return true; }, bucketFloats) {}

BucketPlan::BucketPlan(const ParameterLayout& layout, int workers,
                       const std::function<bool(ParameterIndex)>& isFor, std::size_t bucketFloats)
    : workers_(workers) {
  COHORT_CHECK(workers >= 1 && bucketFloats >= 1, "buckets are for somebody, and hold something");
  bool isOpen = false;  // the last bucket takes more pieces
  for (const Piece& piece : layout.pieces()) {
    if (!isFor(piece.parameter)) {
      bucketsOf_.push_back({});
      continue;
    }
    const std::size_t end = piece.offset + piece.size;
    if (piece.size >= 2 * bucketFloats) {
      // As many equal parts as come near the wanted size.
      const std::size_t parts = (piece.size + bucketFloats / 2) / bucketFloats;
      bucketsOf_.push_back({count(), count() + static_cast<int>(parts)});
      for (std::size_t i = 0; i < parts; ++i) {
        buckets_.push_back(
            {piece.offset + piece.size * i / parts, piece.offset + piece.size * (i + 1) / parts});
        piecesIn_.push_back(1);
      }
      isOpen = false;
      continue;
    }
    if (!isOpen || buckets_.back().end != piece.offset) {
      buckets_.push_back({piece.offset, piece.offset});
      piecesIn_.push_back(0);
    }
    buckets_.back().end = end;
    ++piecesIn_.back();
    bucketsOf_.push_back({count() - 1, count()});
    isOpen = buckets_.back().size() < bucketFloats;
  }
}

ArenaRange BucketPlan::slice(int index, int worker) const {
  const ArenaRange all = bucket(index);
  const auto bound = [&](int w) {
    if (w == workers_) return all.end;
    const std::size_t even = all.size() * static_cast<std::size_t>(w) / static_cast<std::size_t>(workers_);
    return std::min(all.end, all.begin + even / kLineFloats * kLineFloats);
  };
  return {bound(worker), bound(worker + 1)};
}

Ownership BucketPlan::ownership() const {
  Ownership owned;
  for (int worker = 0; worker < workers_; ++worker) owned.push_back(slicesOf(worker));
  return owned;
}

std::vector<ArenaRange> BucketPlan::slicesOf(int worker) const {
  std::vector<ArenaRange> slices;
  for (int i = 0; i < count(); ++i) {
    const ArenaRange part = slice(i, worker);
    if (part.size() == 0) continue;
    if (!slices.empty() && slices.back().end == part.begin) {
      slices.back().end = part.end;
    } else {
      slices.push_back(part);
    }
  }
  return slices;
}

}  // namespace cohort
