#include "data/prefetch.h"

#include <algorithm>
#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/synthetic.h"

namespace cohort {
namespace {

// Samples whose only pixel is their index, and that can be told to fail or to wait.
class Numbers final : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  SampleShape shape() const override { return {1, 1, 1}; }
  int classes() const override { return 10; }
  std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const override {
    ++reads;
    if (index == failing) throw IoError("sample 40 is damaged");
    if (position >= gateFrom) gate->wait();
    pixels[0] = static_cast<float>(index);
    return static_cast<std::int32_t>(index % 10);
  }

  std::int64_t failing = -1;
  std::int64_t gateFrom = 1 << 20;
  std::latch* gate = nullptr;
  mutable std::atomic<int> reads = 0;
};

constexpr BatchOptions kOptions{.batchSize = 12, .grains = 6, .seed = 3};

// What lanes that share the grains of some steps get, in the order of the grains.
std::vector<float> throughPrefetcher(const BatchSource& source,
                                     const std::vector<Prefetcher::LaneGrains>& lanes, Step first, Step steps,
                                     int threads) {
  Prefetcher prefetcher(source, lanes, first, threads);
  std::vector<float> values(static_cast<std::size_t>(steps * kOptions.batchSize));
  std::vector<std::jthread> laneThreads;
  for (int lane = 0; lane < std::ssize(lanes); ++lane) {
    laneThreads.emplace_back([&, lane] {
      for (Step step = 0; step < steps; ++step) {
        for (const GrainIndex g : lanes[static_cast<std::size_t>(lane)]) {
          const Batch batch = prefetcher.next(lane);
          EXPECT_EQ(batch.position, (first + step) * kOptions.batchSize + g * 2);
          std::ranges::copy(batch.images, values.begin() + step * kOptions.batchSize + g * 2);
        }
      }
    });
  }
  return values;
}

TEST(Prefetcher, GivesTheSameSamplesForAnyNumberOfThreadsAndLanes) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  const auto expected = throughPrefetcher(source, {Prefetcher::range(0, 6)}, 5, 40, 0);
  GrainBuffer buffer = source.makeBuffer();
  source.fill(7, 3, buffer);
  EXPECT_EQ(expected[2 * 12 + 3 * 2], buffer.batch().images[0]);
  for (const int threads : {0, 1, 3}) {
    EXPECT_EQ(throughPrefetcher(source, {Prefetcher::range(0, 6)}, 5, 40, threads), expected) << threads;
    EXPECT_EQ(
        throughPrefetcher(source, {Prefetcher::range(0, 1), Prefetcher::range(1, 4), Prefetcher::range(4, 6)},
                          5, 40, threads),
        expected)
        << threads;
  }
}

TEST(Prefetcher, ReadsAheadWhileTheLaneComputes) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  Prefetcher prefetcher(source, {Prefetcher::range(0, 6)}, 0, 1);
  prefetcher.next(0);
  // Three more grains of two samples fit; the thread fills them without being asked.
  while (numbers.reads < 8) std::this_thread::yield();
  SUCCEED();
}

TEST(Prefetcher, LetsALaneFillWhatNobodyHasBegun) {
  Numbers numbers;
  std::latch gate(1);
  numbers.gate = &gate;
  numbers.gateFrom = 4;  // the third grain's samples wait
  const BatchSource source(numbers, {.batchSize = 12, .grains = 6, .seed = 3, .shuffle = false});
  // Lane 0 needs grains 0 to 2, lane 1 needs 3 to 5 and lies behind the gate, in which the only thread gets stuck.
  Prefetcher prefetcher(source, {Prefetcher::range(0, 2), Prefetcher::range(2, 6)}, 0, 1);
  EXPECT_EQ(prefetcher.next(0).images[0], 0.0f);
  EXPECT_EQ(prefetcher.next(0).images[0], 2.0f);
  gate.count_down();
  EXPECT_EQ(prefetcher.next(1).images[0], 4.0f);
  EXPECT_EQ(prefetcher.next(1).images[0], 6.0f);
}

TEST(Prefetcher, ThrowsOnTheLaneWhatReadingThrew) {
  Numbers numbers;
  numbers.failing = 40;
  const BatchSource source(numbers, {.batchSize = 12, .grains = 6, .seed = 3, .shuffle = false});
  for (const int threads : {0, 2}) {
    Prefetcher prefetcher(source, {Prefetcher::range(0, 6)}, 0, threads);
    for (int grain = 0; grain < 20; ++grain) prefetcher.next(0);
    EXPECT_THROW(prefetcher.next(0), IoError) << threads;
  }
}

// ---- grains that are planned

// What a lane gets next is this grain of this step.
void expectGrain(Prefetcher& prefetcher, int lane, const BatchSource& source, Step step, GrainIndex grain) {
  GrainBuffer expected = source.makeBuffer();
  source.fill(step, grain, expected);
  const Batch batch = prefetcher.next(lane);
  EXPECT_EQ(batch.position, step * kOptions.batchSize + grain * 2);
  EXPECT_TRUE(std::ranges::equal(batch.images, expected.batch().images));
}

TEST(PlannedPrefetcher, GivesWhatWasPlannedInThatOrder) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  for (const int threads : {0, 1, 3}) {
    Prefetcher prefetcher(source, 2, threads);
    prefetcher.plan(7, {Prefetcher::range(0, 3), Prefetcher::range(3, 6)});
    prefetcher.plan(2, {Prefetcher::range(4, 5),
                        Prefetcher::range(0, 0)});  // any step, any grains; none for the second lane
    prefetcher.plan(3, {Prefetcher::range(0, 0), Prefetcher::range(1, 3)});
    for (const GrainIndex grain : {0, 1, 2}) expectGrain(prefetcher, 0, source, 7, grain);
    expectGrain(prefetcher, 0, source, 2, 4);
    for (const GrainIndex grain : {3, 4, 5}) expectGrain(prefetcher, 1, source, 7, grain);
    for (const GrainIndex grain : {1, 2}) expectGrain(prefetcher, 1, source, 3, grain);
    prefetcher.plan(0, {Prefetcher::range(5, 6), Prefetcher::range(2, 3)});  // after all was taken
    expectGrain(prefetcher, 1, source, 0, 2);
    expectGrain(prefetcher, 0, source, 0, 5);
  }
}

TEST(PlannedPrefetcher, GivesTheSameForManyPlansAndLanesAtOnce) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  constexpr Step kSteps = 40;
  for (const int threads : {0, 1, 3}) {
    Prefetcher prefetcher(source, 3, threads);
    const std::vector<Prefetcher::LaneGrains> ranges = {Prefetcher::range(0, 1), Prefetcher::range(1, 4),
                                                        Prefetcher::range(4, 6)};
    for (Step step = 0; step < kSteps; ++step) prefetcher.plan(step, ranges);
    std::vector<std::jthread> lanes;
    for (int lane = 0; lane < 3; ++lane) {
      lanes.emplace_back([&, lane] {
        for (Step step = 0; step < kSteps; ++step) {
          for (const GrainIndex grain : ranges[static_cast<std::size_t>(lane)])
            expectGrain(prefetcher, lane, source, step, grain);
        }
      });
    }
  }
}

TEST(PlannedPrefetcher, ReadsAheadWhatIsPlannedAndNoMore) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  Prefetcher prefetcher(source, 1, 1);
  prefetcher.plan(0, {Prefetcher::range(0, 2)});
  while (numbers.reads < 4) std::this_thread::yield();
  prefetcher.plan(5, {Prefetcher::range(3, 4)});
  while (numbers.reads < 6) std::this_thread::yield();
  expectGrain(prefetcher, 0, source, 0, 0);
  expectGrain(prefetcher, 0, source, 0, 1);
  expectGrain(prefetcher, 0, source, 5, 3);
  EXPECT_EQ(numbers.reads, 6 + 6);  // three grains, and three to compare them with
}

TEST(PlannedPrefetcher, EndsWithPlansThatNobodyTook) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  for (const int threads : {0, 2}) {
    Prefetcher prefetcher(source, 2, threads);
    for (Step step = 0; step < 10; ++step)
      prefetcher.plan(step, {Prefetcher::range(0, 3), Prefetcher::range(3, 6)});
  }
  SUCCEED();
}

TEST(PlannedPrefetcherDeathTest, ChecksThatALaneTakesWhatWasPlanned) {
  const Numbers numbers;
  const BatchSource source(numbers, kOptions);
  EXPECT_DEATH(
      {
        Prefetcher prefetcher(source, 2, 0);
        prefetcher.plan(0, {Prefetcher::range(0, 1), Prefetcher::range(0, 0)});
        prefetcher.next(1);
      },
      "a lane takes what was planned");
  EXPECT_DEATH(Prefetcher(source, 2, 0).plan(0, {{0}}), "every lane is told");
}

}  // namespace
}  // namespace cohort
