#include "sync/bucket_plan.h"

#include <algorithm>
#include <functional>
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

// Which parameters, by index.
std::function<bool(ParameterIndex)> only(std::vector<ParameterIndex> wanted) {
  return [wanted = std::move(wanted)](ParameterIndex parameter) {
    return std::ranges::count(wanted, parameter) > 0;
  };
}

TEST(BucketPlan, OfSomeParametersLeavesTheOthersOut) {
  const BucketPlan plan(layoutOf({30, 20, 10, 40, 5}), 1, only({0, 1, 3, 4}), 100);
  ASSERT_EQ(plan.count(), 2);
  EXPECT_EQ(plan.bucket(0), (ArenaRange{0, 50}));
  EXPECT_EQ(plan.bucket(1), (ArenaRange{60, 105})) << "what lies between closes a bucket that has room";
  EXPECT_EQ(plan.piecesIn(0), 2);
  EXPECT_EQ(plan.piecesIn(1), 2);
  const auto expectBuckets = [&](PieceIndex piece, int first, int last) {
    EXPECT_EQ(plan.bucketsOf(piece).first, first) << piece;
    EXPECT_EQ(plan.bucketsOf(piece).last, last) << piece;
  };
  expectBuckets(0, 0, 1);
  expectBuckets(1, 0, 1);
  EXPECT_EQ(plan.bucketsOf(2).first, plan.bucketsOf(2).last) << "none of this plan's";
  expectBuckets(3, 1, 2);
  expectBuckets(4, 1, 2);
}

TEST(BucketPlan, OfNoParametersHasNoBuckets) {
  const BucketPlan plan(layoutOf({30, 20}), 2, only({}), 100);
  EXPECT_EQ(plan.count(), 0);
  EXPECT_TRUE(plan.slicesOf(0).empty());
  EXPECT_EQ(plan.bucketsOf(1).first, plan.bucketsOf(1).last);
}

// A worker's rows of three parameters, with others' rows between them.
TEST(BucketPlan, GapsOfALayoutOfPartsCloseBuckets) {
  const auto part = [](const char* name, std::int64_t rows, std::size_t offset) {
    return ParameterLayout::Part{
        .spec = {.name = name, .shape = {rows, 4}, .initializer = Initializer::constant(0)},
        .offset = offset};
  };
  const ParameterLayout layout({part("a", 5, 20), part("b", 5, 40), part("c", 100, 100), part("d", 1, 500)},
                               600);
  const BucketPlan plan(layout, 1, 100);
  ASSERT_EQ(plan.count(), 6);
  EXPECT_EQ(plan.bucket(0), (ArenaRange{20, 60})) << "neighbours share one";
  EXPECT_EQ(plan.bucket(1), (ArenaRange{100, 200})) << "a large part is cut";
  EXPECT_EQ(plan.bucket(4), (ArenaRange{400, 500}));
  EXPECT_EQ(plan.bucket(5), (ArenaRange{500, 504}));
  const std::vector<ArenaRange> expected{{20, 60}, {100, 504}};
  EXPECT_EQ(plan.slicesOf(0), expected);
  EXPECT_EQ(plan.ownership(), Ownership{expected});
}

// Two plans that are for different parameters together cut every float once.
TEST(BucketPlan, ComplementaryPlansTileTheArena) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> sizes(1 + random() % 9);
    for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 400);
    const ParameterLayout layout = layoutOf(sizes);
    std::vector<bool> isFirst(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) isFirst[i] = random() % 2 == 0;
    const std::size_t bucketFloats = 1 + random() % 300;
    const auto planFor = [&](bool wanted, int workers) {
      return BucketPlan(
          layout, workers,
          [&, wanted](ParameterIndex parameter) {
            return isFirst[static_cast<std::size_t>(parameter)] == wanted;
          },
          bucketFloats);
    };
    std::vector<int> owners(layout.size(), 0);
    for (const BucketPlan& plan : {planFor(true, 3), planFor(false, 2)}) {
      for (const std::vector<ArenaRange>& slices : plan.ownership()) {
        for (const ArenaRange& slice : slices) {
          for (std::size_t at = slice.begin; at < slice.end; ++at) ++owners[at];
        }
      }
    }
    ASSERT_EQ(owners, std::vector<int>(layout.size(), 1));
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
