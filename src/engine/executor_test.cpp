#include "engine/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::RecordingSink;
using reference::Samples;

// Every operator once; `random`: with dropout and batch norm.
Graph everyOperator(bool random = true) {
  ModelBuilder b({3, 12, 12}, 6);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 16, .kernel = 3, .padding = Padding::same()});
  x = b.lrn(b.maxPool(x, 3, 2), {.size = 5, .alpha = 0.1f});
  if (random) x = b.relu(b.batchNorm("norm", x));
  const ValueId left =
      b.conv("left", x, {.outputs = 8, .kernel = 3, .padding = Padding::same(), .groups = 2});
  const ValueId right = b.convRelu("right", x, {.outputs = 8});
  x = b.relu(b.add({b.concat({left, right}), x}));
  b.softmaxLoss("aux", b.dense("aux.logits", b.globalAveragePool(x), {.outputs = 6}),
                {.weight = 0.3f, .evaluated = random});
  x = b.denseRelu("hidden", b.averagePool(x, 2, 2), {.outputs = 20});
  if (random) x = b.dropout(x, 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 6}));
  return b.build();
}

// A lane and what it needs, with memory of its own.
struct Lane {
  Lane(const ExecutionPlan& plan, PreparedWeights& weights, std::uint64_t seed = 1)
      : memory(plan.laneBytes() / sizeof(float)), executor(plan, weights, memory.span(), seed) {}

  FloatBuffer memory;
  Executor executor;
};

struct Outcome {
  double loss = 0;
  std::vector<float> gradient;

  // Bits, not values: a NaN equals itself here, and -0 is not 0.
  bool operator==(const Outcome& other) const {
    return loss == other.loss && gradient.size() == other.gradient.size() &&
           std::memcmp(gradient.data(), other.gradient.data(), gradient.size() * sizeof(float)) == 0;
  }
};

Outcome step(Executor& executor, const Batch& batch) {
  Outcome outcome{.loss = executor.forward(batch).loss, .gradient = {}};
  RecordingSink sink(executor.layout());
  executor.backward(sink);
  sink.expectComplete();
  outcome.gradient.assign(sink.gradient().begin(), sink.gradient().end());
  return outcome;
}

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() { singleThreadedKernels(); }

  static constexpr std::int64_t kGrain = 3;
  Graph graph_ = everyOperator();
  ExecutionPlan plan_ = compile(graph_, {.grainSize = kGrain});
  std::vector<float> parameters_ = reference::variedParameters(graph_);
  PreparedWeights prepared_{plan_, parameters_};
  Samples first_ = reference::namedSamples("first", graph_, kGrain);
  Samples second_ = reference::namedSamples("second", graph_, kGrain);
};

TEST_F(ExecutorTest, GivesTheSameBitsForTheSameBatch) {
  prepared_.refresh({});
  Lane lane(plan_, prepared_);
  const Outcome once = step(lane.executor, first_.batch());
  const Outcome other = step(lane.executor, second_.batch());
  EXPECT_FALSE(once == other);
  EXPECT_TRUE(step(lane.executor, first_.batch()) == once) << "what a lane did before must not matter";
  Samples moved = first_;
  moved.images.insert(moved.images.begin(), 0.0f);  // the same values at another alignment
  Batch batch = moved.batch();
  batch.images = batch.images.subspan(1);
  EXPECT_TRUE(step(lane.executor, batch) == once) << "where the images lie must not matter";
}

TEST_F(ExecutorTest, GivesTheSameBitsInLanesThatRunAtOnce) {
  prepared_.refresh({});
  Lane alone(plan_, prepared_);
  const Outcome firstExpected = step(alone.executor, first_.batch());
  const Outcome secondExpected = step(alone.executor, second_.batch());
  const auto work = [&](int& wrong) {
    singleThreadedKernels();
    Lane lane(plan_, prepared_);
    for (int i = 0; i < 10; ++i) {
      if (!(step(lane.executor, first_.batch()) == firstExpected)) ++wrong;
      if (!(step(lane.executor, second_.batch()) == secondExpected)) ++wrong;
    }
  };
  int wrongs[2] = {};
  std::thread one([&] { work(wrongs[0]); });
  std::thread two([&] { work(wrongs[1]); });
  one.join();
  two.join();
  EXPECT_EQ(wrongs[0] + wrongs[1], 0);
}

TEST_F(ExecutorTest, SeesNewWeightsAfterTheSharesAreRefreshed) {
  prepared_.refresh({});
  Lane lane(plan_, prepared_);
  const Outcome before = step(lane.executor, first_.batch());
  const std::vector<float> old = parameters_;
  for (float& value : parameters_) value *= 0.9f;
  std::thread one([&] { lane.executor.refreshWeights({.index = 0, .count = 3}); });
  std::thread two([&] { lane.executor.refreshWeights({.index = 1, .count = 3}); });
  lane.executor.refreshWeights({.index = 2, .count = 3});
  one.join();
  two.join();
  const Outcome after = step(lane.executor, first_.batch());
  EXPECT_FALSE(after == before);

  PreparedWeights fresh(plan_, parameters_);
  fresh.refresh({});
  Lane other(plan_, fresh);
  EXPECT_TRUE(step(other.executor, first_.batch()) == after);
  std::ranges::copy(old, parameters_.begin());
  prepared_.refresh({});
  EXPECT_TRUE(step(lane.executor, first_.batch()) == before);
}

TEST_F(ExecutorTest, SharesItsMemoryWithAnEvaluatingOne) {
  prepared_.refresh({});
  const ExecutionPlan evaluation = compile(graph_, {.grainSize = kGrain, .training = false});
  PreparedWeights evaluationWeights(evaluation, parameters_);
  evaluationWeights.refresh({});
  FloatBuffer memory(std::max(plan_.laneBytes(), evaluation.laneBytes()) / sizeof(float));
  Executor trainer(plan_, prepared_, memory.span(), 1);
  Executor evaluator(evaluation, evaluationWeights, memory.span(), 1);
  const Outcome trained = step(trainer, first_.batch());
  const double evaluated = evaluator.forward(first_.batch()).loss;
  EXPECT_TRUE(step(trainer, first_.batch()) == trained);
  EXPECT_EQ(evaluator.forward(first_.batch()).loss, evaluated);
}

// Exact zeros and sums only: how long something takes is nobody's business here.
TEST_F(ExecutorTest, TellsWhichNodesItsTimeWentTo) {
  prepared_.refresh({});
  Lane lane(plan_, prepared_);
  const std::span<const NodeSeconds> seconds = lane.executor.nodeSeconds();
  ASSERT_EQ(seconds.size(), graph_.nodes.size());
  const auto named = [&](const std::string& name) {
    return seconds[static_cast<std::size_t>(std::ranges::find(graph_.nodes, name, &Node::name) -
                                            graph_.nodes.begin())];
  };
  const auto begin = std::chrono::steady_clock::now();
  lane.executor.forward(first_.batch());
  EXPECT_GT(named("conv1").forward, 0);
  EXPECT_GT(named("loss").forward, 0);
  EXPECT_EQ(named("conv1").backward, 0) << "no backward pass yet";
  RecordingSink sink(plan_.layout());
  lane.executor.backward(sink);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

  double sum = 0;
  for (const Node& node : graph_.nodes) {
    const NodeSeconds& own = seconds[static_cast<std::size_t>(node.id)];
    sum += own.forward + own.backward + own.update;
    EXPECT_EQ(own.update > 0, !parametersOf(graph_, node).empty()) << node.name;
    // Every ReLU here is fused into the node before it, and whether a flatten reorders is the instruction set's business.
    if (std::holds_alternative<Flatten>(node.op)) continue;
    EXPECT_EQ(own.forward > 0, !std::holds_alternative<Relu>(node.op)) << node.name;
  }
  EXPECT_GT(named("conv1").backward, 0);
  EXPECT_LE(sum, elapsed.count() * (1 + 1e-9)) << "nothing is counted twice";

  const double once = named("conv1").forward;
  lane.executor.forward(second_.batch());
  EXPECT_GT(named("conv1").forward, once) << "it adds up";
}

TEST(Evaluation, GivesTheTrainingLossWithoutBatchNormAndDropout) {
  const Graph graph = everyOperator(false);
  const std::vector<float> parameters = reference::variedParameters(graph);
  const Samples samples = reference::namedSamples("both", graph, 4);
  Graph mainOnly = graph;
  for (Node& node : mainOnly.nodes) {
    if (auto* loss = std::get_if<SoftmaxLoss>(&node.op)) loss->weight = node.name == "loss" ? 1.0f : 0.0f;
  }
  const double trained = reference::runEngine(mainOnly, parameters, samples.batch(), true).loss.loss;
  const double evaluated = reference::runEngine(graph, parameters, samples.batch(), false).loss.loss;
  EXPECT_NEAR(evaluated, trained, 1e-6 * trained);
}

TEST(Plan, TellsTheKernelAndMemoryOfEachNode) {
  const Graph graph = everyOperator();
  const ExecutionPlan plan = compile(graph, {.grainSize = 2});
  const std::vector<NodeReport> reports = plan.nodeReports();
  ASSERT_EQ(reports.size(), graph.nodes.size());
  EXPECT_FALSE(reports[0].kernel.empty());
  EXPECT_GE(reports[0].activationBytes, 2 * 16 * 12 * 12 * sizeof(float));
  std::size_t activations = 0;
  for (const NodeReport& report : reports) activations += report.activationBytes;
  EXPECT_GT(plan.laneBytes(), 0u);
  const ExecutionPlan evaluation = compile(graph, {.grainSize = 2, .training = false});
  EXPECT_LT(evaluation.laneBytes(), plan.laneBytes()) << "evaluation keeps nothing for a backward pass";
  EXPECT_LT(evaluation.laneBytes(), activations);
}

}  // namespace
}  // namespace cohort
