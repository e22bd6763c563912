#include "sync/bulk_synchronous.h"

#include <bit>
#include <cmath>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "comm/thread_transport.h"
#include "sync/test_layout.h"

namespace cohort {
namespace {

// Numbers of very different size, so that another order of additions shows in the bits. They depend on the weights too, so that
// a worker with other weights than the rest would show.
float gradientOf(GrainIndex grain, std::size_t place, Step step, float weight) {
  std::mt19937 random(
      static_cast<unsigned>(grain * 7919 + static_cast<int>(place) * 31 + static_cast<int>(step) * 104729));
  const float mantissa = static_cast<float>(random() % 100000) / 100000.0f - 0.5f;
  return std::ldexp(mantissa, static_cast<int>(random() % 24) - 12) + weight / 64;
}

LossSum lossOf(GrainIndex grain, Step step) {
  return {.loss = std::ldexp(1.0 + grain * 0.1, static_cast<int>((grain * 5 + step) % 30)),
          .samples = 2,
          .top1 = grain % 2,
          .top5 = 1};
}

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
};

// The whole tree by hand.
Outcome serialRun(const ParameterLayout& layout, const ShardOptions& options, int grains, int steps) {
  Outcome outcome{std::vector<float>(layout.size()), {}};
  initialize(layout, 1, outcome.weights);
  Shard shard(layout, options, outcome.weights);
  const GrainTree tree(grains);
  for (Step step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(tree.nodeCount()),
                                         std::vector<float>(layout.size()));
    std::vector<LossSum> losses(sums.size());
    for (int node = tree.nodeCount() - 1; node >= 0; --node) {
      const GrainTree::Node& n = tree.node(node);
      const auto at = static_cast<std::size_t>(node);
      for (std::size_t i = 0; i < layout.size(); ++i) {
        sums[at][i] = n.left < 0 ? gradientOf(n.grains.first, i, step, outcome.weights[i])
                                 : sums[static_cast<std::size_t>(n.left)][i] +
                                       sums[static_cast<std::size_t>(n.right)][i];
      }
      losses[at] = n.left < 0 ? lossOf(n.grains.first, step) : losses[static_cast<std::size_t>(n.left)];
      if (n.left >= 0) losses[at] += losses[static_cast<std::size_t>(n.right)];
    }
    shard.update(0, sums[0], step);
    outcome.losses.push_back(losses[0].loss);
  }
  return outcome;
}

void computeLane(SyncRule& rule, const ParameterLayout& layout, std::span<const float> weights, int lane,
                 Step step) {
  const GrainRange grains = rule.grainsOf(lane);
  for (GrainIndex grain = grains.first; grain < grains.last; ++grain) {
    rule.reportLoss(grain, lossOf(grain, step));
    GradientSink& sink = rule.sinkFor(grain);
    for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
      const std::span<float> place = sink.open(piece);
      const std::size_t offset = layout.piece(piece).offset;
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = gradientOf(grain, offset + i, step, weights[offset + i]);
      }
      sink.close(piece);
    }
  }
}

Outcome runWorker(Communicator& workers, const ParameterLayout& layout, const BucketPlan& plan,
                  ShardOptions options, int grains, int lanes, int steps, Wire wire = Wire::Fp32) {
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
    rule = std::make_unique<BulkSynchronous>(workers, layout, shards, grains, lanes);
  } else {
    rule = std::make_unique<ShardedBulkSynchronous>(workers, layout, plan, shards, outcome.weights, grains,
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

TEST(BulkSynchronous, GivesTheBitsOfASerialTreeForAnyGrainsWorkersLanesAndBuckets) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 30; ++round) {
    const int grains = 1 + static_cast<int>(random() % 17);
    const int size = 1 + static_cast<int>(random() % static_cast<unsigned>(std::min(grains, 6)));
    const ParameterLayout layout = someLayout(random, 900);
    const BucketPlan plan(layout, size, 1 + random() % 600);
    ShardOptions options;
    options.optimizer.kind = round % 2 == 0 ? OptimizerKind::Momentum : OptimizerKind::Adam;
    options.optimizer.learningRate = 0.01;
    options.grains = grains;
    constexpr int kSteps = 4;
    const Outcome expected = serialRun(layout, options, grains, kSteps);

    ThreadHub hub(size, round % 3);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        const int lanes =
            1 +
            static_cast<int>(random() % static_cast<unsigned>(grainsOfWorker(grains, rank, size).count()));
        threads.emplace_back([&, rank, lanes] {
          Communicator workers(hub.transport(rank), 60);
          outcomes[static_cast<std::size_t>(rank)] =
              runWorker(workers, layout, plan, options, grains, lanes, kSteps);
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
              runWorker(workers, layout, plan, options, 6, 1, kSteps, Wire::Fp16);
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
