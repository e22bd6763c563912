#include "sync/bucket_plan.h"

#include <random>

#include <gtest/gtest.h>

namespace cohort {
namespace {

ParameterLayout layoutOf(const std::vector<std::int64_t>& sizes) {
  std::vector<ParameterSpec> specs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    specs.push_back(
        {.name = "p" + std::to_string(i), .shape = {sizes[i]}, .initializer = Initializer::constant(0)});
  }
  return ParameterLayout(specs);
}

TEST(BucketPlan, PutsSmallPiecesTogetherAndCutsLargeOnes) {
  const BucketPlan plan(layoutOf({60, 50, 10, 500, 30}), 1, 100);
  ASSERT_EQ(plan.count(), 8);
  EXPECT_EQ(plan.bucket(0), (ArenaRange{0, 110}));
  EXPECT_EQ(plan.bucket(1), (ArenaRange{110, 120}));
  EXPECT_EQ(plan.bucket(2), (ArenaRange{120, 220}));
  EXPECT_EQ(plan.bucket(6), (ArenaRange{520, 620}));
  EXPECT_EQ(plan.bucket(7), (ArenaRange{620, 650}));
  EXPECT_EQ(plan.bucketsOf(3).first, 2);
  EXPECT_EQ(plan.bucketsOf(3).last, 7);
  EXPECT_EQ(plan.piecesIn(0), 2);
  EXPECT_EQ(plan.piecesIn(4), 1);
}

TEST(BucketPlan, BucketsTileTheArenaAndSlicesTileTheBuckets) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> sizes(1 + random() % 8);
    for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 700);
    const ParameterLayout layout = layoutOf(sizes);
    const int workers = 1 + static_cast<int>(random() % 9);
    const BucketPlan plan(layout, workers, 1 + random() % 300);
    std::size_t next = 0;
    std::size_t owned = 0;
    for (int bucket = 0; bucket < plan.count(); ++bucket) {
      EXPECT_EQ(plan.bucket(bucket).begin, next);
      for (int worker = 0; worker < workers; ++worker) {
        const ArenaRange slice = plan.slice(bucket, worker);
        ASSERT_EQ(slice.begin, next);
        ASSERT_LE(slice.begin, slice.end);
        next = slice.end;
      }
      ASSERT_EQ(plan.bucket(bucket).end, next);
      int pieces = 0;
      for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
        const Piece& p = layout.piece(piece);
        const bool isIn = p.offset < plan.bucket(bucket).end && p.offset + p.size > plan.bucket(bucket).begin;
        const BucketPlan::Range range = plan.bucketsOf(piece);
        ASSERT_EQ(isIn, bucket >= range.first && bucket < range.last);
        pieces += isIn ? 1 : 0;
      }
      ASSERT_EQ(pieces, plan.piecesIn(bucket));
    }
    ASSERT_EQ(next, layout.size());
    for (int worker = 0; worker < workers; ++worker) {
      for (const ArenaRange& slice : plan.slicesOf(worker)) owned += slice.size();
    }
    ASSERT_EQ(owned, layout.size());
  }
}

TEST(BucketPlan, SlicesOfLargeBucketsDifferLittle) {
  const BucketPlan plan(layoutOf({1 << 22}), 3);
  for (int bucket = 0; bucket < plan.count(); ++bucket) {
    for (int worker = 0; worker < 3; ++worker) {
      EXPECT_NEAR(static_cast<double>(plan.slice(bucket, worker).size()), (1 << 20) / 3.0, 64);
    }
  }
}

}  // namespace
}  // namespace cohort
