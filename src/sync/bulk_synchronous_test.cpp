#include "sync/bulk_synchronous.h"

#include <bit>
#include <cmath>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "comm/thread_transport.h"
#include "sync/test_gradients.h"
#include "sync/test_layout.h"

namespace cohort {
namespace {

Outcome runWorker(Communicator& workers, const ParameterLayout& layout, const BucketPlan& plan,
                  ShardOptions options, const GrainDivision& division, int lanes, int steps,
                  Wire wire = Wire::Fp32) {
  Outcome outcome{std::vector<float>(layout.size()), {}};
  initialize(layout, 1, outcome.weights);
  std::vector<Shard> shards;
  for (const ArenaRange& slice : plan.slicesOf(workers.rank())) {
    options.begin = slice.begin;
    options.end = slice.end;
    shards.emplace_back(layout, options, std::span(outcome.weights).subspan(slice.begin, slice.size()));
  }
  std::unique_ptr<SyncRule> rule;
  if (workers.size() == 1) {
    rule = std::make_unique<BulkSynchronous>(workers, layout, shards, division.grains(), lanes);
  } else {
    rule = std::make_unique<ShardedBulkSynchronous>(workers, layout, plan, shards, outcome.weights, division,
                                                    lanes, wire);
  }
  for (Step step = 0; step < steps; ++step) {
    rule->beginStep(step, workers.rank() == 1 && step == 2 ? kWishStop : 0);
    {
      std::vector<std::jthread> threads;
      for (int lane = 0; lane < lanes; ++lane) {
        threads.emplace_back([&, lane] { computeLane(*rule, layout, outcome.weights, lane, step); });
      }
    }
    const StepResult result = rule->finishStep();
    outcome.losses.push_back(result.loss.loss);
    EXPECT_EQ(result.wishes, workers.size() > 1 && step == 2 ? kWishStop : 0);
  }
  return outcome;
}

// Every worker has a grain, and the others lie anywhere.
GrainDivision someDivision(std::mt19937& random, int grains, int workers) {
  std::vector<int> counts(static_cast<std::size_t>(workers), 1);
  for (int grain = workers; grain < grains; ++grain) ++counts[random() % counts.size()];
  return GrainDivision(counts);
}

TEST(BulkSynchronous, GivesTheBitsOfASerialTreeForAnyGrainsWorkersDivisionsLanesAndBuckets) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 40; ++round) {
    const int grains = 1 + static_cast<int>(random() % 17);
    const int size = 1 + static_cast<int>(random() % static_cast<unsigned>(std::min(grains, 6)));
    const GrainDivision division =
        round % 2 == 0 ? GrainDivision::equal(grains, size) : someDivision(random, grains, size);
    const ParameterLayout layout = someLayout(random, 900);
    const BucketPlan plan(layout, size, 1 + random() % 600);
    ShardOptions options;
    options.optimizer.kind = round % 4 < 2 ? OptimizerKind::Momentum : OptimizerKind::Adam;
    options.optimizer.learningRate = 0.01;
    options.grains = grains;
    constexpr int kSteps = 4;
    const Outcome expected = serialRun(layout, options, grains, kSteps);

    ThreadHub hub(size, round % 3);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        const int lanes = 1 + static_cast<int>(random() % static_cast<unsigned>(division.of(rank).count()));
        threads.emplace_back([&, rank, lanes] {
          Communicator workers(hub.transport(rank), 60);
          outcomes[static_cast<std::size_t>(rank)] =
              runWorker(workers, layout, plan, options, division, lanes, kSteps);
        });
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      ASSERT_EQ(outcome.losses, expected.losses) << grains << " grains, worker " << rank << " of " << size;
      for (std::size_t i = 0; i < layout.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(outcome.weights[i]),
                  std::bit_cast<std::uint32_t>(expected.weights[i]))
            << grains << " grains, worker " << rank << " of " << size << ", place " << i;
      }
    }
  }
}

TEST(BulkSynchronous, WithSixteenBitsOnTheWireAllWorkersAgreeAndStayNear) {
  std::mt19937 random(2);
  for (const int size : {2, 3}) {
    const ParameterLayout layout = someLayout(random, 900);
    const BucketPlan plan(layout, size, 200);
    ShardOptions options;
    options.optimizer.learningRate = 0.01;
    options.grains = 6;
    constexpr int kSteps = 5;
    const Outcome expected = serialRun(layout, options, 6, kSteps);
    ThreadHub hub(size, 1);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
          Communicator workers(hub.transport(rank), 60);
          outcomes[static_cast<std::size_t>(rank)] =
              runWorker(workers, layout, plan, options, GrainDivision::equal(6, size), 1, kSteps, Wire::Fp16);
        });
      }
    }
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.weights, outcomes.front().weights);
    double moved = 0;
    double error = 0;
    std::vector<float> first(layout.size());
    initialize(layout, 1, first);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      moved = std::max(moved, std::fabs(static_cast<double>(expected.weights[i]) - first[i]));
      error = std::max(error, std::fabs(static_cast<double>(expected.weights[i]) - outcomes[0].weights[i]));
    }
    EXPECT_GT(error, 0) << "nothing was rounded";
    EXPECT_LT(error, moved / 500);
  }
}

}  // namespace
}  // namespace cohort
