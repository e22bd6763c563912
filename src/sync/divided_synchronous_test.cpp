#include "sync/divided_synchronous.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "comm/test_transport.h"
#include "comm/thread_transport.h"
#include "sync/test_division.h"

namespace cohort {
namespace {

// data groups of `model` workers.
struct Mesh {
  int data = 1;
  int model = 1;
  int workers() const { return data * model; }
};

constexpr Mesh kMeshes[] = {{1, 2}, {2, 2}, {1, 3}, {3, 1}, {2, 3}, {1, 1}};

ParameterSpec spec(const char* name, std::vector<std::int64_t> shape, float decay = 0) {
  return {.name = name,
          .shape = std::move(shape),
          .initializer = Initializer::uniform(1),
          .kind = decay > 0 ? ParameterKind::RunningStatistic : ParameterKind::Weight,
          .statisticDecay = decay};
}

// Private rows first, last and between what all have; statistics of both kinds.
DividedNetwork someNetwork(int members) {
  return dividedNetwork({spec("logits", {7, 13}), spec("logits.bias", {7}), spec("norm", {9}),
                         spec("norm.mean", {9}, 0.5F), spec("hidden", {20, 50}),
                         spec("hidden.mean", {20}, 0.75F), spec("stem", {300}), spec("wide", {3, 70})},
                        {true, true, false, false, true, true, false, true}, members);
}

// Who has a float: everybody, or one member of each group.
bool isPrivate(const DividedNetwork& network, std::size_t place) {
  for (const DividedPlan::Member& member : network.members) {
    for (std::size_t i = 0; i < member.isPrivate.size(); ++i) {
      const Parameter& parameter = member.layout.parameters()[i];
      if (place >= parameter.offset && place < parameter.offset + parameter.size) return member.isPrivate[i];
    }
  }
  return false;
}

// Numbers of very different size, so that another order of additions shows in the bits. They depend on the weights too, so that
// a worker with other weights than the rest would show. `source` is whose samples they are of: a worker's own, or a group's.
float gradientOf(int source, int round, std::size_t place, Step step, float weight) {
  const PhiloxBlock random =
      philox(philoxKey(static_cast<std::uint64_t>(source), static_cast<std::uint64_t>(round)),
             {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(step), 0, 0});
  return std::ldexp(uniformFloat(random[0]) - 0.5f, static_cast<int>(random[1] % 24) - 12) + weight / 64;
}
constexpr int kGroupSource = 100;

LossSum lossOf(int worker, int round, Step step) {
  return {.loss = std::ldexp(1.0 + worker * 0.1 + round * 0.01,
                             static_cast<int>((worker * 5 + round + step) % 30)),
          .samples = 2,
          .top1 = worker % 2,
          .top5 = 1};
}

// By a tree over `count` leaves.
template <class Leaf>
auto treeSum(const GrainTree& tree, Leaf&& leaf, int node = 0) -> decltype(leaf(0)) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return leaf(n.grains.first);
  auto sum = treeSum(tree, leaf, n.left);
  sum += treeSum(tree, leaf, n.right);
  return sum;
}

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
  std::vector<float> kept;  // gradients of the last step

  bool operator==(const Outcome&) const = default;
};

constexpr int kSteps = 4;

ShardOptions options(OptimizerKind kind, const Mesh& mesh, int rounds) {
  ShardOptions shard;
  shard.optimizer.kind = kind;
  shard.optimizer.learningRate = 0.01;
  shard.grains = mesh.workers() * rounds;
  return shard;
}

// Everything summed and applied by one, in the order that the rule promises.
Outcome serialRun(const DividedNetwork& network, const Mesh& mesh, int rounds,
                  const ShardOptions& shardOptions) {
  Outcome outcome{std::vector<float>(network.whole.size()), {}, std::vector<float>(network.whole.size())};
  initialize(network.whole, 1, outcome.weights);
  Shard shard(network.whole, shardOptions, outcome.weights);
  const GrainTree roundTree(rounds);
  for (Step step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < outcome.kept.size(); ++i) {
      const bool ofGroups = isPrivate(network, i);
      const GrainTree tree(ofGroups ? mesh.data : mesh.workers());
      outcome.kept[i] = treeSum(tree, [&](int source) {
        return treeSum(roundTree, [&](int round) {
          return gradientOf(ofGroups ? kGroupSource + source : source, round, i, step, outcome.weights[i]);
        });
      });
    }
    shard.update(0, outcome.kept, step);
    const GrainTree lossTree(mesh.workers() * rounds);
    outcome.losses.push_back(
        treeSum(lossTree, [&](int i) { return lossOf(i / rounds, i % rounds, step); }).loss);
  }
  return outcome;
}

void computeLane(SyncRule& rule, const DividedPlan::Member& member, const DividedPlan& plan,
                 std::span<const float> weights, int lane, Step step) {
  const int worker = plan.group() * plan.members() + plan.member();
  const GrainRange rounds = rule.grainsOf(lane);
  for (int round = rounds.first; round < rounds.last; ++round) {
    rule.reportLoss(round, lossOf(worker, round, step));
    GradientSink& sink = rule.sinkFor(round);
    for (PieceIndex index = 0; index < static_cast<int>(member.layout.pieces().size()); ++index) {
      const Piece& piece = member.layout.piece(index);
      const bool ofGroup = member.isPrivate[static_cast<std::size_t>(piece.parameter)];
      const std::span<float> place = sink.open(index);
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = gradientOf(ofGroup ? kGroupSource + plan.group() : worker, round, piece.offset + i, step,
                              weights[piece.offset + i]);
      }
      sink.close(index);
    }
  }
}

constexpr float kUntouched = -77;

Outcome runWorker(Communicator& workers, const DividedNetwork& network, const Mesh& mesh, int rounds,
                  int lanes, ShardOptions shardOptions, Wire wire) {
  const DividedPlan plan(network.members, mesh.data, workers.rank());
  const DividedPlan::Member& member = network.members[static_cast<std::size_t>(plan.member())];
  Outcome outcome{
      std::vector<float>(network.whole.size()), {}, std::vector<float>(network.whole.size(), kUntouched)};
  initialize(network.whole, 1, outcome.weights);
  std::vector<Shard> shards;
  for (const ArenaRange& slice : plan.owned()[static_cast<std::size_t>(workers.rank())]) {
    shardOptions.begin = slice.begin;
    shardOptions.end = slice.end;
    shards.emplace_back(network.whole, shardOptions,
                        std::span(outcome.weights).subspan(slice.begin, slice.size()));
  }
  DividedSynchronous rule(workers, member.layout, plan, shards, outcome.weights, rounds, lanes, wire);
  for (Step step = 0; step < kSteps; ++step) {
    if (step == kSteps - 1) rule.keepGradients(outcome.kept);
    const bool isLast = workers.rank() == workers.size() - 1;
    rule.beginStep(step, isLast && step == 2 ? kWishStop : 0);
    {
      std::vector<std::jthread> threads;
      for (int lane = 0; lane < lanes; ++lane) {
        threads.emplace_back([&, lane] { computeLane(rule, member, plan, outcome.weights, lane, step); });
      }
    }
    const StepResult result = rule.finishStep();
    outcome.losses.push_back(result.loss.loss);
    EXPECT_EQ(result.loss.samples, 2 * mesh.workers() * rounds);
    EXPECT_EQ(result.wishes, step == 2 ? kWishStop : 0);
  }
  return outcome;
}

std::vector<Outcome> run(const DividedNetwork& network, const Mesh& mesh, int rounds, int lanes,
                         std::uint32_t disorder, const ShardOptions& shardOptions, Wire wire = Wire::Fp32) {
  ThreadHub hub(mesh.workers(), disorder);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(mesh.workers()));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(hub.transport(rank), 60);
      outcomes[static_cast<std::size_t>(rank)] =
          runWorker(workers, network, mesh, rounds, lanes, shardOptions, wire);
    });
  }
  threads.clear();
  return outcomes;
}

// Calls check(place) for each float that the worker computes.
void forEachOwn(const DividedNetwork& network, const Mesh& mesh, int rank,
                const std::function<void(std::size_t)>& check) {
  for (const Piece& piece : network.members[static_cast<std::size_t>(rank % mesh.model)].layout.pieces()) {
    for (std::size_t at = piece.offset; at < piece.offset + piece.size; ++at) check(at);
  }
}

TEST(DividedSynchronous, GivesTheBitsOfSerialSumsOnEveryMesh) {
  unsigned round = 0;
  for (const Mesh& mesh : kMeshes) {
    for (const int rounds : {1, 2, 5}) {
      for (const int lanes : {1, 2}) {
        if (lanes > rounds) continue;
        SCOPED_TRACE(
            fmt::format("{} groups of {}, {} rounds, {} lanes", mesh.data, mesh.model, rounds, lanes));
        const DividedNetwork network = someNetwork(mesh.model);
        const ShardOptions shardOptions =
            options(round % 2 == 0 ? OptimizerKind::Sgd : OptimizerKind::Adam, mesh, rounds);
        const Outcome expected = serialRun(network, mesh, rounds, shardOptions);
        const std::vector<Outcome> outcomes = run(network, mesh, rounds, lanes, ++round % 3, shardOptions);
        for (int rank = 0; rank < mesh.workers(); ++rank) {
          const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
          ASSERT_EQ(outcome.losses, expected.losses) << "worker " << rank;
          forEachOwn(network, mesh, rank, [&](std::size_t at) {
            ASSERT_EQ(outcome.weights[at], expected.weights[at]) << "worker " << rank << ", place " << at;
          });
        }
      }
    }
  }
}

// By hand: w -= 0.01 * (the sum of all gradients), where every worker brings 1 for what all have, and every group 10 for what
// only one of its members has.
TEST(DividedSynchronous, StepsAlongTheWholeSum) {
  const Mesh mesh{2, 2};
  const DividedNetwork network =
      dividedNetwork({spec("rows", {2, 4}), spec("common", {4})}, {true, false}, mesh.model);
  ThreadHub hub(4);
  std::vector<std::vector<float>> weights(4, std::vector<float>(12, 5.0f));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(hub.transport(rank), 60);
      const DividedPlan plan(network.members, mesh.data, rank);
      const ParameterLayout& layout = network.members[static_cast<std::size_t>(plan.member())].layout;
      std::vector<Shard> shards;
      std::vector<float>& own = weights[static_cast<std::size_t>(rank)];
      for (const ArenaRange& slice : plan.owned()[static_cast<std::size_t>(rank)]) {
        ShardOptions shardOptions = options(OptimizerKind::Sgd, mesh, 1);
        shardOptions.begin = slice.begin;
        shardOptions.end = slice.end;
        shards.emplace_back(network.whole, shardOptions, std::span(own).subspan(slice.begin, slice.size()));
      }
      DividedSynchronous rule(workers, layout, plan, shards, own, 1, 1, Wire::Fp32);
      rule.beginStep(0, 0);
      rule.reportLoss(0, {.loss = 1, .samples = 1});
      for (PieceIndex piece = 0; piece < 2; ++piece) {
        std::ranges::fill(rule.sinkFor(0).open(piece), piece == 0 ? 10.0f : 1.0f);
        rule.sinkFor(0).close(piece);
      }
      EXPECT_EQ(rule.finishStep().loss.loss, 4);
    });
  }
  threads.clear();
  for (int rank = 0; rank < 4; ++rank) {
    for (std::size_t at = 0; at < 12; ++at) {
      const bool isCommon = at >= 8;
      const bool isOwn = isCommon || (at / 4 == static_cast<std::size_t>(rank % 2));
      const float expected = isCommon ? 5 - 0.01f * 4 : isOwn ? 5 - 0.01f * 20 : 5;
      EXPECT_FLOAT_EQ(weights[static_cast<std::size_t>(rank)][at], expected)
          << "worker " << rank << ", place " << at;
    }
  }
}

TEST(DividedSynchronous, LeavesOthersRowsAlone) {
  const Mesh mesh{1, 3};
  const DividedNetwork network = someNetwork(mesh.model);
  const std::vector<Outcome> outcomes = run(network, mesh, 2, 1, 1, options(OptimizerKind::Sgd, mesh, 2));
  std::vector<float> first(network.whole.size());
  initialize(network.whole, 1, first);
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    std::vector<bool> isOwn(first.size(), false);
    forEachOwn(network, mesh, rank, [&](std::size_t at) { isOwn[at] = true; });
    for (std::size_t at = 0; at < first.size(); ++at) {
      ASSERT_TRUE(isOwn[at] || outcomes[static_cast<std::size_t>(rank)].weights[at] == first[at])
          << rank << ", " << at;
    }
  }
}

TEST(DividedSynchronous, KeepsTheSumsThatAWorkerApplies) {
  const Mesh mesh{2, 2};
  const DividedNetwork network = someNetwork(mesh.model);
  const ShardOptions shardOptions = options(OptimizerKind::Sgd, mesh, 2);
  const Outcome expected = serialRun(network, mesh, 2, shardOptions);
  const std::vector<Outcome> outcomes = run(network, mesh, 2, 1, 1, shardOptions);
  const Ownership owned = DividedPlan(network.members, mesh.data, 0).owned();
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    std::vector<float> kept(network.whole.size(), kUntouched);
    for (const ArenaRange& slice : owned[rank]) {
      for (std::size_t at = slice.begin; at < slice.end; ++at) kept[at] = expected.kept[at];
    }
    EXPECT_EQ(outcomes[rank].kept, kept) << "worker " << rank;
  }
}

TEST(DividedSynchronous, IsTheSameInEveryRunWhateverTheOrderOfMessages) {
  const Mesh mesh{2, 3};
  const DividedNetwork network = someNetwork(mesh.model);
  for (const Wire wire : {Wire::Fp32, Wire::Fp16}) {
    const ShardOptions shardOptions = options(OptimizerKind::Momentum, mesh, 3);
    const std::vector<Outcome> once = run(network, mesh, 3, 1, 0, shardOptions, wire);
    for (const std::uint32_t disorder : {1U, 2U, 3U, 4U}) {
      EXPECT_EQ(run(network, mesh, 3, disorder % 2 == 0 ? 1 : 3, disorder, shardOptions, wire), once)
          << disorder;
    }
  }
}

// ---- 16 bits

struct Errors {
  double common = 0;
  double ofPrivates = 0;
};

// The largest distance from exact sums; all who have a weight agree about it.
Errors errorsOfHalf(const Mesh& mesh) {
  const DividedNetwork network = someNetwork(mesh.model);
  const ShardOptions shardOptions = options(OptimizerKind::Sgd, mesh, 2);
  const Outcome expected = serialRun(network, mesh, 2, shardOptions);
  const std::vector<Outcome> outcomes = run(network, mesh, 2, 1, 1, shardOptions, Wire::Fp16);
  Errors errors;
  std::vector<const Outcome*> firstOf(network.whole.size(), nullptr);
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    forEachOwn(network, mesh, rank, [&](std::size_t at) {
      if (firstOf[at] == nullptr) firstOf[at] = &outcome;
      ASSERT_EQ(outcome.weights[at], firstOf[at]->weights[at]) << "worker " << rank << ", place " << at;
      double& error = isPrivate(network, at) ? errors.ofPrivates : errors.common;
      error = std::max(error, std::fabs(static_cast<double>(outcome.weights[at]) - expected.weights[at]));
    });
  }
  return errors;
}

TEST(DividedSynchronous, WithSixteenBitsOnTheWireWhatStaysOnAWorkerIsNotRounded) {
  for (const Mesh& mesh : {Mesh{1, 2}, Mesh{1, 3}}) {
    const Errors errors = errorsOfHalf(mesh);
    EXPECT_EQ(errors.ofPrivates, 0) << mesh.model;
    EXPECT_GT(errors.common, 0) << "nothing was rounded";
    EXPECT_LT(errors.common, 0.1);
  }
}

TEST(DividedSynchronous, WithSixteenBitsOnTheWireCounterpartsAgreeAndStayNear) {
  const Errors errors = errorsOfHalf({2, 2});
  EXPECT_GT(errors.ofPrivates, 0) << "nothing was rounded";
  EXPECT_LT(errors.ofPrivates, 0.1);
  EXPECT_GT(errors.common, 0);
  EXPECT_LT(errors.common, 0.1);
}

TEST(DividedSynchronous, UsesNotMoreTagsThanItSays) {
  const Mesh mesh{2, 2};
  const DividedNetwork network = someNetwork(mesh.model);
  ThreadHub hub(mesh.workers());
  NotedTags tags;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(std::make_unique<NotingTransport>(hub.transport(rank), tags), 60);
      runWorker(workers, network, mesh, 2, 1, options(OptimizerKind::Sgd, mesh, 2), Wire::Fp32);
    });
  }
  threads.clear();
  const DividedPlan plan(network.members, mesh.data, 0);
  EXPECT_LT(tags.largest(), DividedSynchronous::tagCount(plan));
  EXPECT_GT(tags.largest(), 2 + ShardExchange::tagCount(plan.shared(), GrainTree(4)))
      << "private parameters moved too";
}

}  // namespace
}  // namespace cohort
