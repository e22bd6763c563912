#include "sync/local_steps.h"

#include <cmath>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "comm/thread_transport.h"

namespace cohort {
namespace {

constexpr int kGrains = 4;

ParameterLayout someLayout() {
  return ParameterLayout({{.name = "w", .shape = {90}, .initializer = Initializer::uniform(1)},
                          {.name = "mean",
                           .shape = {5},
                           .initializer = Initializer::constant(0),
                           .kind = ParameterKind::RunningStatistic,
                           .statisticDecay = 0.5F},
                          {.name = "v", .shape = {40}, .initializer = Initializer::uniform(1)}});
}

// Of a grain, as a part of the whole batch's mean. Statistics are the grain's own.
float gradientOf(GrainIndex grain, std::size_t place, float weight) {
  const bool isStatistic = place >= 90 && place < 95;
  const float pull = static_cast<float>(grain + 1) / 4;
  return isStatistic ? pull : (weight - pull) / kGrains;
}

using Weights = std::vector<float>;

// Every worker's weights at the end, after checking that all are the same where they must be.
std::vector<Weights> run(int size, int steps, const LocalOptions& options,
                         const OptimizerOptions& optimizer) {
  const ParameterLayout layout = someLayout();
  const BucketPlan plan(layout, size, 32);
  std::vector<Weights> all(static_cast<std::size_t>(size), Weights(layout.size()));
  std::vector<std::vector<Weights>> history(static_cast<std::size_t>(size));
  ThreadHub hub(size, 1);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator workers(hub.transport(rank), 60);
        Weights& weights = all[static_cast<std::size_t>(rank)];
        initialize(layout, 1, weights);
        std::vector<Shard> shards;
        shards.emplace_back(layout, ShardOptions{.optimizer = optimizer, .grains = kGrains / size}, weights);
        FloatBuffer outer(layout.size());
        LocalSteps rule(workers, layout, plan, shards, weights, outer.span(), kGrains, 1, options);
        for (Step step = 0; step < steps; ++step) {
          rule.beginStep(step, 0);
          const GrainRange grains = rule.grainsOf(0);
          for (GrainIndex grain = grains.first; grain < grains.last; ++grain) {
            rule.reportLoss(grain, {.loss = 1, .samples = 1});
            GradientSink& sink = rule.sinkFor(grain);
            for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
              const std::span<float> place = sink.open(piece);
              const std::size_t offset = layout.piece(piece).offset;
              for (std::size_t i = 0; i < place.size(); ++i) {
                place[i] = gradientOf(grain, offset + i, weights[offset + i]);
              }
              sink.close(piece);
            }
          }
          EXPECT_EQ(rule.finishStep().loss.loss, kGrains);
          if (rule.isCommon(step)) history[static_cast<std::size_t>(rank)].push_back(weights);
        }
      });
    }
  }
  for (const auto& one : history) EXPECT_EQ(one, history.front()) << "workers differ after an averaging";
  return all;
}

double distance(const Weights& a, const Weights& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

OptimizerOptions sgd(double rate) {
  OptimizerOptions options;
  options.learningRate = rate;
  return options;
}

TEST(LocalSteps, AveragedAfterEveryStepIsBulkSynchronousForSgd) {
  const Weights one = run(1, 6, {}, sgd(0.1))[0];
  for (const int size : {2, 4}) EXPECT_LT(distance(run(size, 6, {}, sgd(0.1))[0], one), 1e-6) << size;
}

TEST(LocalSteps, AloneNothingIsExchanged) {
  EXPECT_EQ(run(1, 6, {.every = 3}, sgd(0.1)), run(1, 6, {.every = 1}, sgd(0.1)));
}

// By hand: each worker pulls towards the mean of its own grains' goals, then the changes are averaged.
TEST(LocalSteps, StepsAloneInBetween) {
  constexpr double kRate = 0.3;
  const Weights weights = run(2, 4, {.every = 2}, sgd(kRate))[0];
  Weights expected(someLayout().size());
  initialize(someLayout(), 1, expected);
  const double goals[2] = {(0.25 + 0.5) / 2, (0.75 + 1) / 2};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool isStatistic = i >= 90 && i < 95;
    double common = expected[i];
    for (int round = 0; round < 2; ++round) {
      double sum = 0;
      for (const double goal : goals) {
        double own = common;
        for (int step = 0; step < 2; ++step) own += (isStatistic ? 0.5 : kRate) * (goal - own);
        sum += own;
      }
      common = sum / 2;
    }
    ASSERT_NEAR(weights[i], common, 1e-5) << i;
  }
}

TEST(LocalSteps, TheLastStepIsAlwaysCommon) {
  const std::vector<Weights> all = run(2, 5, {.every = 3, .last = 4}, sgd(0.1));
  EXPECT_EQ(all[0], all[1]);
  EXPECT_NE(run(2, 5, {.every = 3}, sgd(0.1))[0], all[0]);
}

// Nesterov on the averaged change, by hand.
TEST(LocalSteps, TakesDiLoCosOuterStep) {
  constexpr double kRate = 0.3;
  constexpr double kOuterRate = 0.7;
  constexpr double kMomentum = 0.9;
  const Weights weights =
      run(2, 6, {.every = 2, .outerRate = kOuterRate, .outerMomentum = kMomentum}, sgd(kRate))[0];
  Weights first(someLayout().size());
  initialize(someLayout(), 1, first);
  for (std::size_t i = 0; i < 90; ++i) {
    double common = first[i];
    double outer = 0;
    for (int round = 0; round < 3; ++round) {
      double change = 0;
      for (const double goal : {(0.25 + 0.5) / 2, (0.75 + 1) / 2}) {
        double own = common;
        for (int step = 0; step < 2; ++step) own += kRate * (goal - own);
        change += (own - common) / 2;
      }
      outer = kMomentum * outer + change;
      common += kOuterRate * (change + kMomentum * outer);
    }
    ASSERT_NEAR(weights[i], common, 1e-5) << i;
  }
}

TEST(LocalSteps, SixteenBitsOnTheWireStayNear) {
  const Weights exact = run(4, 8, {.every = 2}, sgd(0.1))[0];
  const Weights rounded = run(4, 8, {.every = 2, .wire = Wire::Fp16}, sgd(0.1))[0];
  EXPECT_NE(exact, rounded);
  EXPECT_LT(distance(exact, rounded), 1e-3);
}

}  // namespace
}  // namespace cohort
