#include "base/grain_division.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Counts = std::vector<int>;

Counts byLanes(int grains, const Counts& lanes) {
  return GrainDivision::byLanes(grains, lanes).counts();
}

TEST(GrainDivision, FollowsTheLanes) {
  EXPECT_EQ(byLanes(8, {3, 1}), (Counts{6, 2}));
  EXPECT_EQ(byLanes(8, {1, 3}), (Counts{2, 6}));
  EXPECT_EQ(byLanes(16, {4, 2, 1, 1}), (Counts{8, 4, 2, 2}));
  EXPECT_EQ(byLanes(6, {2, 1, 1}), (Counts{3, 1, 2})) << "as far as grains are whole";
}

TEST(GrainDivision, LeavesNobodyWithoutAGrain) {
  EXPECT_EQ(byLanes(4, {64, 1, 1}), (Counts{2, 1, 1}));
  EXPECT_EQ(byLanes(4, {1, 1, 64}), (Counts{1, 1, 2}));
  EXPECT_EQ(byLanes(3, {1, 64, 1}), (Counts{1, 1, 1}));
  EXPECT_EQ(byLanes(1, {5}), (Counts{1}));
}

TEST(GrainDivision, IsTheEqualOneForEqualLanes) {
  for (int grains = 1; grains <= 17; ++grains) {
    for (int workers = 1; workers <= grains; ++workers) {
      const GrainDivision division = GrainDivision::equal(grains, workers);
      EXPECT_EQ(GrainDivision::byLanes(grains, Counts(static_cast<std::size_t>(workers), 7)), division);
      for (int worker = 0; worker < workers; ++worker) {
        EXPECT_EQ(division.of(worker), shareOf({0, grains}, {worker, workers}))
            << grains << " on " << workers;
      }
    }
  }
}

TEST(GrainDivision, IsAsSomebodySays) {
  const GrainDivision division({4, 1, 3});
  EXPECT_EQ(division.grains(), 8);
  EXPECT_EQ(division.workers(), 3);
  EXPECT_EQ(division.of(1), (GrainRange{4, 5}));
  EXPECT_EQ(division.counts(), (Counts{4, 1, 3}));
}

}  // namespace
}  // namespace cohort
