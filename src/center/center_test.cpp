// Whole centers with workers that are threads, in this process and over sockets of the loopback interface.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/float_buffer.h"
#include "base/grain_tree.h"
#include "center/client.h"
#include "center/server.h"
#include "optim/shard.h"

namespace cohort {
namespace {

constexpr int kGrains = 6;

std::vector<ParameterSpec> testParameters() {
  ParameterSpec weights{.name = "dense.weight", .shape = {37, 11}, .initializer = {}};
  ParameterSpec bias{.name = "dense.bias", .shape = {37}, .initializer = {}};
  ParameterSpec mean{.name = "norm.mean",
                     .shape = {23},
                     .initializer = {},
                     .kind = ParameterKind::RunningStatistic,
                     .statisticDecay = 0.9F};
  return {weights, bias, mean};
}

CenterSetup testSetup(CenterRule rule, Step target, OptimizerKind optimizer = OptimizerKind::Momentum) {
  return {.config = "network: test",
          .parameters = testParameters(),
          .optimizer = {.kind = optimizer, .learningRate = 0.05, .weightDecay = 0.001},
          .schedule = "exponential:5,0.9",
          .epoch = {.samples = 100, .batch = 10},
          .grains = kGrains,
          .target = target,
          .rule = std::move(rule),
          .step = 0};
}

// What a grain's backward pass gives: any function of the weights, the step and the grain.
void grainGradient(std::span<const float> weights, Step step, GrainIndex grain, std::span<float> gradient) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto phase = static_cast<float>(step * 31 + grain * 7 + static_cast<Step>(i % 13));
    gradient[i] = 0.1F * weights[i] + std::sin(phase) / kGrains;
  }
}

void addNode(const GrainTree& tree, int node, std::span<const float> weights, Step step,
             std::span<float> sum) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return grainGradient(weights, step, n.grains.first, sum);
  std::vector<float> right(sum.size());
  addNode(tree, n.left, weights, step, sum);
  addNode(tree, n.right, weights, step, right);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
}

LossSum grainLoss(Step step, GrainIndex grain) {
  return {.loss = std::sin(static_cast<double>(step * 10 + grain)), .samples = 3, .top1 = 1, .top5 = 2};
}

std::vector<float> firstWeights(std::size_t size) {
  std::vector<float> weights(size);
  for (std::size_t i = 0; i < size; ++i) weights[i] = std::cos(static_cast<float>(i));
  return weights;
}

// The same run without a center: what one worker alone would do.
std::vector<float> serialWeights(const CenterSetup& setup) {
  const ParameterLayout layout(setup.parameters);
  std::vector<float> weights = firstWeights(layout.size());
  Shard shard(layout,
              {.optimizer = setup.optimizer,
               .schedule = parseSchedule(setup.schedule, setup.epoch),
               .grains = setup.grains},
              weights);
  const GrainTree tree(setup.grains);
  std::vector<float> sum(layout.size());
  for (Step step = 0; step < setup.target; ++step) {
    addNode(tree, 0, weights, step, sum);
    shard.update(0, sum, step);
  }
  return weights;
}

struct WorkerResult {
  std::vector<float> weights;
  std::vector<Work> works;
  std::vector<double> losses;  // as orders told them
  bool wasChief = false;
};

// A worker from its joining to the run's end, or to its own after `most` works.
WorkerResult work(std::shared_ptr<Connector> servers, const CenterSetup& setup, int seed,
                  int most = 1 << 30) {
  WorkerResult result;
  const ParameterLayout layout(setup.parameters);
  CenterClient client(std::move(servers), {.recoveryWait = 10, .name = fmt::format("worker {}", seed)});
  const CenterClient::Welcome welcome = client.join();
  result.weights = firstWeights(layout.size());
  if (!welcome.isOpen) {
    Shard shard(layout, {.optimizer = setup.optimizer, .grains = setup.grains}, result.weights);
    std::vector<CenterClient::Arena> state{{"weights", result.weights}};
    for (const Shard::Slot& slot : shard.slots()) state.push_back({slot.name, slot.values});
    client.open(setup, state);
  } else {
    EXPECT_EQ(welcome.config, setup.config);
  }
  std::ranges::fill(result.weights, 0.0F);  // the center has them
  client.enter(setup, result.weights);
  const GrainTree tree(setup.grains);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::vector<float>> sums;  // until the next order
  for (;;) {
    const CenterClient::Order order = client.next();
    if (order.state.loss.samples > 0) result.losses.push_back(order.state.loss.loss);
    if (order.kind == CenterClient::Order::Kind::Over) break;
    if (order.kind == CenterClient::Order::Kind::End) {
      result.wasChief = order.state.isChief;
      if (order.state.isChief) client.settle();
      continue;
    }
    if (std::ssize(result.works) == most) break;
    result.works.push_back(order.work);
    sums.clear();
    for (const int node : tree.cover(order.work.grains)) {
      std::vector<float>& sum = sums.emplace_back(layout.size());
      addNode(tree, node, result.weights, order.work.step, sum);
      for (std::size_t at = 0; at < sum.size();) {
        const std::size_t end = std::min<std::size_t>(sum.size(), at + 1 + random() % 300);
        client.push(node, {at, end}, sum, {});
        at = end;
      }
    }
    std::vector<LossSum> losses;
    for (GrainIndex grain = order.work.grains.first; grain < order.work.grains.last; ++grain)
      losses.push_back(grainLoss(order.work.step, grain));
    client.finish(losses);
  }
  return result;
}

enum class Way { Local, Loopback, Tls };

struct TestCenter {
  TestCenter(Way how, int count) : way(how) {
    if (way == Way::Tls) credentials = makeCredentials("test");
    for (int i = 0; i < count; ++i) {
      servers.push_back(std::make_unique<CenterServer>(
          CenterServer::Options{.index = i,
                                .count = count,
                                .listen = way == Way::Local ? "" : "127.0.0.1:0",
                                .credentials = credentials}));
    }
  }
  std::shared_ptr<Connector> connector() const {
    if (way == Way::Local) {
      std::vector<CenterServer*> all;
      for (const auto& server : servers) all.push_back(server.get());
      return connectorTo(all);
    }
    std::vector<std::string> addresses;
    for (const auto& server : servers) addresses.push_back(server->address());
    return connectorTo(addresses, credentials);
  }
  std::vector<WorkerResult> run(const CenterSetup& setup, int workers) const {
    std::vector<WorkerResult> results(static_cast<std::size_t>(workers));
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&, i] { results[static_cast<std::size_t>(i)] = work(connector(), setup, i); });
    }
    threads.clear();
    return results;
  }

  Way way;
  std::optional<Credentials> credentials;
  std::vector<std::unique_ptr<CenterServer>> servers;
};

class CenterOver : public testing::TestWithParam<std::tuple<Way, int>> {
 protected:
  Way way() const { return std::get<0>(GetParam()); }
  int servers() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Ways, CenterOver,
                         testing::Combine(testing::Values(Way::Local, Way::Loopback, Way::Tls),
                                          testing::Values(1, 3)));

TEST_P(CenterOver, AsyncWithOneWorkerIsPlainTraining) {
  for (const OptimizerKind optimizer :
       {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Adagrad, OptimizerKind::Adam}) {
    const CenterSetup setup = testSetup({.name = "async"}, 25, optimizer);
    const TestCenter center(way(), servers());
    const std::vector<WorkerResult> results = center.run(setup, 1);
    EXPECT_EQ(results[0].weights, serialWeights(setup));
    EXPECT_EQ(results[0].works.size(), 25U);
    EXPECT_TRUE(results[0].wasChief);
  }
}

TEST_P(CenterOver, BspGivesTheBitsOfOneWorkerForAnyNumber) {
  for (const int workers : {1, 2, 3, 5}) {
    const CenterSetup setup = testSetup({.name = "bsp"}, 20, OptimizerKind::Adam);
    const TestCenter center(way(), servers());
    for (const WorkerResult& result : center.run(setup, workers)) {
      EXPECT_EQ(result.weights, serialWeights(setup)) << workers;
    }
  }
}

TEST_P(CenterOver, BackupWithoutBackupsIsBsp) {
  const CenterSetup setup = testSetup({.name = "backup", .members = 3}, 20);
  const TestCenter center(way(), servers());
  for (const WorkerResult& result : center.run(setup, 3)) EXPECT_EQ(result.weights, serialWeights(setup));
}

TEST_P(CenterOver, BackupLeavesLateOnesOut) {
  const CenterSetup setup = testSetup({.name = "backup", .backups = 1, .members = 3}, 20);
  const TestCenter center(way(), servers());
  const std::vector<WorkerResult> results = center.run(setup, 3);
  for (const WorkerResult& result : results) EXPECT_EQ(result.weights, results[0].weights);
}

TEST_P(CenterOver, EveryStepIsComputedOnceWhoeverComesAndGoes) {
  const CenterSetup setup = testSetup({.name = "async"}, 60);
  const TestCenter center(way(), servers());
  WorkerResult early, leaver, late;
  std::jthread first([&] { early = work(center.connector(), setup, 1); });
  std::jthread second([&] { leaver = work(center.connector(), setup, 2, 7); });
  second.join();
  std::jthread third([&] { late = work(center.connector(), setup, 3); });
  first.join();
  third.join();
  std::vector<Step> steps;
  for (const WorkerResult* result : {&early, &leaver, &late}) {
    for (const Work& one : result->works) steps.push_back(one.step);
  }
  std::ranges::sort(steps);
  std::vector<Step> all(60);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(steps, all);
}

}  // namespace
}  // namespace cohort
