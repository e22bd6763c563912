#include "sync/divided_plan.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sync/test_division.h"

namespace cohort {
namespace {

using testing::ElementsAre;

ParameterSpec spec(const std::string& name, std::vector<std::int64_t> shape) {
  return {.name = name, .shape = std::move(shape), .initializer = Initializer::constant(0)};
}

// "a" 4 x 16 at 0, divided; "s" at 64, everybody's; "b" 2 x 64 at 128, divided.
DividedNetwork smallNetwork(int members) {
  return dividedNetwork({spec("a", {4, 16}), spec("s", {64}), spec("b", {2, 64})}, {true, false, true},
                        members);
}

TEST(DividedPlan, KnowsAWorkersPlace) {
  const DividedNetwork network = smallNetwork(2);
  const DividedPlan plan(network.members, 3, 3);
  EXPECT_EQ(plan.groups(), 3);
  EXPECT_EQ(plan.members(), 2);
  EXPECT_EQ(plan.group(), 1);
  EXPECT_EQ(plan.member(), 1);
  EXPECT_THAT(plan.ownGroup(), ElementsAre(2, 3));
  EXPECT_THAT(plan.counterparts(), ElementsAre(1, 3, 5));
}

TEST(DividedPlan, CutsWhatAllHaveAmongAllAndTheRestAmongThoseWhoHaveIt) {
  const DividedNetwork network = smallNetwork(2);
  for (int rank = 0; rank < 4; ++rank) {
    const DividedPlan plan(network.members, 2, rank);
    EXPECT_THAT(plan.owned(),
                ElementsAre(ElementsAre(ArenaRange{0, 16}, ArenaRange{64, 80}, ArenaRange{128, 160}),
                            ElementsAre(ArenaRange{32, 48}, ArenaRange{80, 96}, ArenaRange{192, 224}),
                            ElementsAre(ArenaRange{16, 32}, ArenaRange{96, 112}, ArenaRange{160, 192}),
                            ElementsAre(ArenaRange{48, 64}, ArenaRange{112, 128}, ArenaRange{224, 256})))
        << "as worker " << rank << " sees it";
    EXPECT_THAT(plan.privates(), ElementsAre(ElementsAre(ArenaRange{0, 16}, ArenaRange{128, 160}),
                                             ElementsAre(ArenaRange{32, 48}, ArenaRange{192, 224}),
                                             ElementsAre(ArenaRange{16, 32}, ArenaRange{160, 192}),
                                             ElementsAre(ArenaRange{48, 64}, ArenaRange{224, 256})));
  }
}

TEST(DividedPlan, HasBucketsForTheOwnLayoutsPieces) {
  const DividedNetwork network = smallNetwork(2);
  const DividedPlan plan(network.members, 2, 3);
  EXPECT_EQ(plan.shared().workers(), 4);
  ASSERT_EQ(plan.shared().count(), 1);
  EXPECT_EQ(plan.shared().bucket(0), (ArenaRange{64, 128}));
  EXPECT_EQ(plan.own().workers(), 2);
  ASSERT_EQ(plan.own().count(), 2) << "what others have lies between";
  EXPECT_EQ(plan.own().bucket(0), (ArenaRange{32, 64}));
  EXPECT_EQ(plan.own().bucket(1), (ArenaRange{192, 256}));
  for (PieceIndex piece = 0; piece < 3; ++piece) {
    const auto count = [&](const BucketPlan& buckets) {
      return buckets.bucketsOf(piece).last - buckets.bucketsOf(piece).first;
    };
    EXPECT_EQ(count(plan.shared()), piece == 1 ? 1 : 0) << piece;
    EXPECT_EQ(count(plan.own()), piece == 1 ? 0 : 1) << piece;
  }
}

TEST(DividedPlan, OfOneGroupGivesMembersTheirPrivateParametersWhole) {
  const DividedNetwork network = smallNetwork(2);
  const DividedPlan plan(network.members, 1, 0);
  EXPECT_THAT(plan.privates(), ElementsAre(ElementsAre(ArenaRange{0, 32}, ArenaRange{128, 192}),
                                           ElementsAre(ArenaRange{32, 64}, ArenaRange{192, 256})));
  EXPECT_THAT(plan.counterparts(), ElementsAre(0));
}

TEST(DividedPlan, OfGroupsOfOneHasNothingPrivate) {
  const DividedNetwork network = smallNetwork(1);
  const DividedPlan plan(network.members, 3, 2);
  EXPECT_EQ(plan.own().count(), 0);
  for (const auto& slices : plan.privates()) EXPECT_TRUE(slices.empty());
  EXPECT_EQ(plan.owned(), plan.shared().ownership());
  EXPECT_THAT(plan.ownGroup(), ElementsAre(2));
}

TEST(DividedPlan, EveryFloatIsAppliedByOneWorkerThatComputesItAndAllPlansAgree) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int members = 1 + static_cast<int>(random() % 4);
    const int groups = 1 + static_cast<int>(random() % 4);
    std::vector<ParameterSpec> specs(1 + random() % 6);
    std::vector<bool> divided(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      specs[i] = spec(fmt::format("p{}", i), {members + static_cast<std::int64_t>(random() % 5),
                                              1 + static_cast<std::int64_t>(random() % 90)});
      divided[i] = random() % 2 == 0;
    }
    SCOPED_TRACE(fmt::format("round {}, {} groups of {}", round, groups, members));
    const DividedNetwork network = dividedNetwork(specs, divided, members);
    const DividedPlan plan(network.members, groups, 0);
    std::vector<int> owners(network.whole.size(), 0);
    for (int worker = 0; worker < groups * members; ++worker) {
      const DividedPlan other(network.members, groups, worker);
      ASSERT_EQ(other.owned(), plan.owned());
      ASSERT_EQ(other.privates(), plan.privates());
      std::vector<bool> isComputed(network.whole.size(), false);
      for (const Piece& piece : network.members[static_cast<std::size_t>(other.member())].layout.pieces()) {
        for (std::size_t at = piece.offset; at < piece.offset + piece.size; ++at) isComputed[at] = true;
      }
      std::size_t last = 0;
      for (const ArenaRange& slice : plan.owned()[static_cast<std::size_t>(worker)]) {
        ASSERT_LE(last, slice.begin) << "slices are in order";
        last = slice.end;
        for (std::size_t at = slice.begin; at < slice.end; ++at) {
          ++owners[at];
          ASSERT_TRUE(isComputed[at]) << "worker " << worker << ", place " << at;
        }
      }
    }
    ASSERT_EQ(owners, std::vector<int>(owners.size(), 1));
  }
}

}  // namespace
}  // namespace cohort
