#include "train/division.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::Each;
using testing::ElementsAre;

// By group: its rounds' grains, as its first member knows them.
std::vector<std::vector<GrainRange>> roundsOf(int grains, const Mesh& mesh) {
  std::vector<std::vector<GrainRange>> all;
  for (int group = 0; group < mesh.data; ++group) {
    const Rounds rounds(grains, {.strategy = {}, .mesh = mesh, .rank = group * mesh.model});
    std::vector<GrainRange>& own = all.emplace_back();
    for (int round = 0; round < rounds.count(); ++round) own.push_back(rounds.grainsOf(round));
  }
  return all;
}

TEST(Division, APlaceIsAMemberOfAGroup) {
  const Division division{.strategy = {}, .mesh = {.data = 2, .model = 3}, .rank = 4};
  EXPECT_EQ(division.group(), 1);
  EXPECT_EQ(division.member(), 1);
  const Rounds rounds(6, division);
  EXPECT_EQ(rounds.members(), 3);
  EXPECT_EQ(rounds.member(), 1);
}

TEST(Rounds, TakeAsManyGrainsAsAGroupHasMembers) {
  EXPECT_THAT(roundsOf(8, {2, 2}), ElementsAre(ElementsAre(GrainRange{0, 2}, GrainRange{2, 4}),  //
                                               ElementsAre(GrainRange{4, 6}, GrainRange{6, 8})));
  EXPECT_THAT(roundsOf(6, {1, 3}), ElementsAre(ElementsAre(GrainRange{0, 3}, GrainRange{3, 6})));
  EXPECT_THAT(roundsOf(3, {3, 1}), ElementsAre(ElementsAre(GrainRange{0, 1}), ElementsAre(GrainRange{1, 2}),
                                               ElementsAre(GrainRange{2, 3})));
}

TEST(Rounds, TheLastOneMayHaveFewer) {
  EXPECT_THAT(roundsOf(7, {2, 2}), ElementsAre(ElementsAre(GrainRange{0, 2}, GrainRange{2, 3}),  //
                                               ElementsAre(GrainRange{3, 5}, GrainRange{5, 7})));
  EXPECT_THAT(roundsOf(2, {1, 3}), ElementsAre(ElementsAre(GrainRange{0, 2})));
}

TEST(Rounds, AllGroupsHaveAsMany) {
  EXPECT_THAT(roundsOf(9, {4, 2}), ElementsAre(ElementsAre(GrainRange{0, 2}, GrainRange{2, 2}),
                                               ElementsAre(GrainRange{2, 4}, GrainRange{4, 4}),
                                               ElementsAre(GrainRange{4, 6}, GrainRange{6, 6}),
                                               ElementsAre(GrainRange{6, 8}, GrainRange{8, 9})));
  EXPECT_THAT(roundsOf(2, {3, 1}), ElementsAre(ElementsAre(GrainRange{0, 0}), ElementsAre(GrainRange{0, 1}),
                                               ElementsAre(GrainRange{1, 2})));
}

TEST(Rounds, HaveEveryGrainOnceAndNoMoreRoundsThanNeeded) {
  for (int grains = 1; grains <= 20; ++grains) {
    for (int data = 1; data <= 5; ++data) {
      for (int model = 1; model <= 5; ++model) {
        SCOPED_TRACE(fmt::format("{} grains, {} groups of {}", grains, data, model));
        GrainIndex next = 0;
        bool isLastUsed = false;
        for (const std::vector<GrainRange>& group : roundsOf(grains, {data, model})) {
          for (const GrainRange& round : group) {
            ASSERT_EQ(round.first, next);
            ASSERT_LE(round.count(), model);
            next = round.last;
          }
          isLastUsed = isLastUsed || group.back().count() > 0;
        }
        ASSERT_EQ(next, grains);
        ASSERT_TRUE(isLastUsed);
      }
    }
  }
}

// ---- their samples

// A sample's two pixels are its index and its position.
class Numbers final : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  SampleShape shape() const override { return {1, 1, 2}; }
  int classes() const override { return 10; }
  std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const override {
    pixels[0] = static_cast<float>(index) + 1;
    pixels[1] = static_cast<float>(position) + 1;
    return static_cast<std::int32_t>(index % 10);
  }
};

constexpr std::int64_t kGrainSize = 3;
constexpr Step kFirstStep = 5;
constexpr Step kSteps = 3;

struct Case {
  int grains = 1;
  Mesh mesh;
  int lanes = 1;
  int threads = 0;
  bool isRound = false;

  std::int64_t batchSize() const { return kGrainSize * grains; }
};

// What a grain must be.
class Expected {
 public:
  Expected(const BatchSource& source, const Case& one)
      : source_(source), one_(one), buffer_(source.makeBuffer()) {}

  // These samples are this grain, or padding.
  void expectGrain(std::span<const float> images, std::span<const std::int32_t> labels, Step step,
                   GrainIndex grain, bool isPadding) {
    if (isPadding) {
      EXPECT_THAT(images, Each(0.0f));
      EXPECT_THAT(labels, Each(kIgnoredLabel));
      return;
    }
    source_.fill(step, grain, buffer_);
    EXPECT_TRUE(std::ranges::equal(images, buffer_.batch().images)) << "step " << step << ", grain " << grain;
    EXPECT_TRUE(std::ranges::equal(labels, buffer_.batch().labels));
    ++seen_[static_cast<std::size_t>((step - kFirstStep) * one_.grains + grain)];
  }
  // How often each grain of each step was there.
  const std::vector<int>& seen() const { return seen_; }

 private:
  const BatchSource& source_;
  const Case& one_;
  GrainBuffer buffer_;
  std::vector<int> seen_ = std::vector<int>(static_cast<std::size_t>(one_.grains * kSteps), 0);
};

void expectBatch(const Batch& batch, const Case& one, const Rounds& rounds, Step step, int round,
                 Expected& expected) {
  const GrainRange grains = rounds.grainsOf(round);
  const int first = one.isRound ? 0 : rounds.member();
  const int count = one.isRound ? rounds.members() : 1;
  EXPECT_EQ(batch.grains, grains.count());
  EXPECT_EQ(batch.globalSize, one.batchSize());
  EXPECT_EQ(batch.position, step * one.batchSize() + (grains.first + first) * kGrainSize);
  ASSERT_EQ(batch.size(), count * kGrainSize);
  ASSERT_EQ(std::ssize(batch.images), 2 * count * kGrainSize);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i * kGrainSize);
    expected.expectGrain(batch.images.subspan(2 * at, 2 * kGrainSize), batch.labels.subspan(at, kGrainSize),
                         step, grains.first + first + i, first + i >= grains.count());
  }
}

// All steps of all workers, one after the other; every grain comes as often as it should.
void expectEverySampleInItsPlace(const Case& one) {
  SCOPED_TRACE(fmt::format("{} grains, {} groups of {}, {} lanes, {} threads, {}", one.grains, one.mesh.data,
                           one.mesh.model, one.lanes, one.threads, one.isRound ? "rounds" : "own grains"));
  const Numbers numbers;
  const BatchSource source(numbers, {.batchSize = one.batchSize(), .grains = one.grains, .seed = 3});
  Expected expected(source, one);
  for (int rank = 0; rank < one.mesh.workers(); ++rank) {
    const Rounds rounds(one.grains, {.strategy = {}, .mesh = one.mesh, .rank = rank});
    std::vector<GrainRange> lanes;
    for (int lane = 0; lane < one.lanes; ++lane)
      lanes.push_back(shareOf({0, rounds.count()}, {lane, one.lanes}));
    RoundBatches batches(source, rounds, lanes, one.isRound, kFirstStep, one.threads);
    for (Step step = kFirstStep; step < kFirstStep + kSteps; ++step) {
      for (int lane = 0; lane < one.lanes; ++lane) {
        for (int round = lanes[static_cast<std::size_t>(lane)].first;
             round < lanes[static_cast<std::size_t>(lane)].last; ++round) {
          expectBatch(batches.next(lane, step, round), one, rounds, step, round, expected);
        }
      }
    }
  }
  EXPECT_THAT(expected.seen(), Each(one.isRound ? one.mesh.model : 1));
}

TEST(RoundBatches, GiveEveryGrainToTheMemberWhoseItIs) {
  for (const Mesh& mesh : {Mesh{1, 2}, Mesh{2, 2}, Mesh{1, 3}, Mesh{3, 1}, Mesh{2, 3}}) {
    for (const int grains : {1, 2, 6, 7, 12}) {
      for (const bool isRound : {false, true}) {
        for (const int threads : {0, 2}) {
          expectEverySampleInItsPlace(
              {.grains = grains, .mesh = mesh, .lanes = 1, .threads = threads, .isRound = isRound});
        }
      }
    }
  }
}

// Also lanes that have nothing but padding, or nothing at all.
TEST(RoundBatches, DealRoundsOutToLanes) {
  for (const int lanes : {2, 3}) {
    for (const bool isRound : {false, true}) {
      expectEverySampleInItsPlace(
          {.grains = 12, .mesh = {1, 2}, .lanes = lanes, .threads = 1, .isRound = isRound});
      expectEverySampleInItsPlace(
          {.grains = 9, .mesh = {4, 2}, .lanes = lanes, .threads = 0, .isRound = isRound});
      expectEverySampleInItsPlace(
          {.grains = 5, .mesh = {1, 2}, .lanes = lanes, .threads = 1, .isRound = isRound});
    }
  }
}

// A round of padding is computed into the memory that held samples before.
TEST(RoundBatches, PaddingIsEmptyAfterAFullRound) {
  const Case one{.grains = 3, .mesh = {1, 2}, .lanes = 1, .threads = 0, .isRound = true};
  const Numbers numbers;
  const BatchSource source(numbers, {.batchSize = one.batchSize(), .grains = one.grains, .seed = 3});
  const Rounds rounds(one.grains, {.strategy = {}, .mesh = one.mesh, .rank = 1});
  RoundBatches batches(source, rounds, {{0, 2}}, true, 0, 0);
  for (Step step = 0; step < 2; ++step) {
    EXPECT_EQ(std::ranges::count(batches.next(0, step, 0).labels, kIgnoredLabel), 0);
    const Batch last = batches.next(0, step, 1);
    EXPECT_EQ(last.grains, 1);
    EXPECT_EQ(std::ranges::count(last.labels, kIgnoredLabel), kGrainSize);
    EXPECT_THAT(last.labels.subspan(kGrainSize), Each(kIgnoredLabel));
    EXPECT_THAT(last.images.subspan(2 * kGrainSize), Each(0.0f));
  }
}

}  // namespace
}  // namespace cohort
