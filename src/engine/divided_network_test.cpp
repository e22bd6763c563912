// Whole networks, divided over the workers of a group: together they compute what one computes alone, by the naive reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/test_transport.h"
#include "engine/test_group.h"
#include "graph/model_builder.h"
#include "tests/reference/naive_network.h"

namespace cohort {
namespace {

using reference::NaiveNetwork;
using reference::RecordingSink;

constexpr std::uint64_t kSeed = 17;
constexpr std::int64_t kGrainSize = 2;

// As in tests/reference/engine_check.cpp: single precision against double, and against finite differences.
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
constexpr double kCancellationScale = 1e-2;
constexpr double kDifference = 1e-6;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kElements = 2;  // of each parameter, by finite differences
#else
constexpr std::size_t kElements = 8;
#endif

// ---- what one computes alone

double largestOf(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

// A round's grains, each by itself, in double precision and by the engine; padding is not there at all.
class Alone {
 public:
  Alone(const Graph& graph, const Round& round)
      : layout_(parameterLayout(graph)), engine_(layout_.size(), 0.0f) {
    const std::vector<float> parameters = reference::variedParameters(graph);
    for (int grain = 0; grain < round.grains; ++grain) {
      Batch batch = round.grain(grain);
      batch.grains = 1;
      naive_.emplace_back(graph, parameters, batch, NaiveNetwork::Options{.training = true, .seed = kSeed});
      const reference::EngineResult engine = reference::runEngine(graph, parameters, batch, true, kSeed);
      loss_ += engine.loss;
      for (std::size_t i = 0; i < engine_.size(); ++i) engine_[i] += engine.gradient[i];
    }
    for (ParameterIndex i = 0; i < static_cast<int>(layout_.parameters().size()); ++i) differentiate(i);
  }

  void expectLoss(const LossSum& sum) const {
    double loss = 0;
    for (const NaiveNetwork& grain : naive_) loss += grain.lossSum();
    EXPECT_NEAR(sum.loss, loss, kLossTolerance * loss);
    EXPECT_EQ(sum.samples, loss_.samples);
    EXPECT_EQ(sum.top1, loss_.top1);
    EXPECT_EQ(sum.top5, loss_.top5);
  }

  // `gradient` is of the whole network.
  void expectGradient(std::span<const float> gradient) const {
    const double overall = largestOf(engine_);
    for (const Parameter& parameter : layout_.parameters()) {
      const auto expected = std::span(engine_).subspan(parameter.offset, parameter.size);
      const double scale = std::max(largestOf(expected), kCancellationScale * overall);
      for (std::size_t i = 0; i < parameter.size; ++i) {
        ASSERT_NEAR(gradient[parameter.offset + i], expected[i], kGradientTolerance * scale)
            << parameter.name << "[" << i << "], as the engine has it alone";
      }
    }
    for (const auto& [place, expected] : differences_) {
      ASSERT_NEAR(gradient[place], expected.value,
                  kGradientTolerance * std::max(expected.scale, kCancellationScale * overall))
          << "at " << place << ", by finite differences";
    }
    expectStatistics(gradient);
  }

 private:
  struct Difference {
    double value = 0;
    double scale = 0;
  };

  void differentiate(ParameterIndex index) {
    const Parameter& parameter = layout_.at(index);
    if (parameter.kind != ParameterKind::Weight) return;
    const double scale = largestOf(std::span(engine_).subspan(parameter.offset, parameter.size));
    const std::size_t count = std::min(kElements, parameter.size);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = parameter.offset + (i * parameter.size / count + i * i) % parameter.size;
      double sum = 0;
      for (NaiveNetwork& grain : naive_) sum += difference(grain, place, grain.reader(index));
      differences_[place] = {sum, scale};
    }
  }

  static double difference(NaiveNetwork& naive, std::size_t place, NodeId reader) {
    const double original = naive.parameter(place);
    const auto objectiveAt = [&](double value) {
      naive.parameter(place) = value;
      naive.run(reader);
      return naive.objective();
    };
    const double above = objectiveAt(original + kDifference);
    const double below = objectiveAt(original - kDifference);
    objectiveAt(original);
    return (above - below) / (2 * kDifference);
  }

  // Sums over the grains.
  void expectStatistics(std::span<const float> gradient) const {
    std::map<std::string, std::vector<double>> sums;
    for (const NaiveNetwork& grain : naive_) {
      for (const auto& [name, values] : grain.statistics()) {
        std::vector<double>& sum = sums[name];
        sum.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
      }
    }
    for (const auto& [name, expected] : sums) {
      const std::size_t offset = layout_.at(layout_.find(name)).offset;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(gradient[offset + i], expected[i], 1e-5 * (1 + std::abs(expected[i])))
            << name << "[" << i << "]";
      }
    }
  }

  ParameterLayout layout_;
  std::vector<float> engine_;
  LossSum loss_;
  std::vector<NaiveNetwork> naive_;
  std::map<std::size_t, Difference> differences_;
};

// ---- what a group computes together

struct Together {
  std::vector<LossSum> losses;                // by worker
  std::vector<std::vector<float>> gradients;  // by worker, in the whole arena; NaN where it has none
  std::vector<LocalGraph> locals;

  LossSum loss() const {
    LossSum sum;
    for (const LossSum& own : losses) sum += own;
    return sum;
  }

  // The whole network's: what all have is summed, and what is private is one worker's.
  std::vector<float> gradient() const {
    std::vector<float> sum(locals.front().layout.size(), 0.0f);
    std::vector<int> owners(sum.size(), 0);
    const auto count = static_cast<int>(locals.size());
    for (std::size_t worker = 0; worker < locals.size(); ++worker) {
      const LocalGraph& local = locals[worker];
      for (std::size_t i = 0; i < local.isPrivate.size(); ++i) {
        const Parameter& parameter = local.layout.parameters()[i];
        for (std::size_t at = parameter.offset; at < parameter.offset + parameter.size; ++at) {
          sum[at] += gradients[worker][at];
          owners[at] += local.isPrivate[i] ? count : 1;
        }
      }
    }
    EXPECT_EQ(owners, std::vector<int>(owners.size(), count)) << "a gradient is missing, or there twice";
    return sum;
  }

  // Bits, not values.
  bool operator==(const Together& other) const {
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      if (losses[worker].loss != other.losses[worker].loss) return false;
      if (std::memcmp(gradients[worker].data(), other.gradients[worker].data(),
                      gradients[worker].size() * sizeof(float)) != 0)
        return false;
    }
    return true;
  }
};

// The round is computed twice by the same lanes, from memory at two places, which must not show.
Together compute(const Graph& graph, const Strategy& strategy, const Round& round, std::uint32_t disorder) {
  const auto members = static_cast<std::size_t>(round.members);
  const std::vector<float> parameters = reference::variedParameters(graph);
  Together together{std::vector<LossSum>(members), std::vector<std::vector<float>>(members), {}};
  for (int index = 0; index < round.members; ++index) {
    together.locals.push_back(partition(graph, strategy, {index, round.members}));
  }
  asGroup(round.members, disorder, [&](Communicator& communicator) {
    const auto index = static_cast<std::size_t>(communicator.rank());
    const LocalGraph& local = together.locals[index];
    const ExecutionPlan plan = compile(local, {.grainSize = kGrainSize});
    PreparedWeights prepared(plan, parameters);
    prepared.refresh({});
    MemberLane lane(plan, prepared, communicator, 0, kSeed);
    std::vector<float>& gradient = together.gradients[index];
    Round copy = round;
    for (int time = 0; time < 2; ++time) {
      const Batch batch = time == 0 ? copy.of(local) : round.of(local);
      const LossSum loss = lane.executor.forward(batch);
      RecordingSink sink(plan.layout());
      lane.executor.backward(sink);
      sink.expectComplete();
      if (time == 1) {
        EXPECT_EQ(loss.loss, together.losses[index].loss);
        EXPECT_EQ(std::memcmp(gradient.data(), sink.gradient().data(), gradient.size() * sizeof(float)), 0);
      }
      together.losses[index] = loss;
      gradient.assign(sink.gradient().begin(), sink.gradient().end());
      std::ranges::fill(copy.images, std::nanf(""));  // nobody looks there any more
    }
  });
  return together;
}

// ---- networks

struct Network {
  std::string name;
  Graph graph;
  std::vector<SplitRule> rules = {};  // a strategy of its own, over hybrid
};

Graph plain() {
  ModelBuilder b({3, 6, 6}, 5);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 18, .kernel = 3, .padding = Padding::same()});
  x = b.convRelu("conv2", b.maxPool(x, 2, 2), {.outputs = 7, .kernel = 3, .padding = Padding::same()});
  x = b.denseRelu("fc", x, {.outputs = 11});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 5}));
  return b.build();
}

// Sums and joins of what is divided differently, a narrower summand, neighbours across channels, two losses.
Graph branches() {
  ModelBuilder b({3, 6, 6}, 5);
  const ValueId x = b.convRelu("stem", b.input(), {.outputs = 8, .kernel = 3});
  const ValueId left = b.convRelu("left", x, {.outputs = 5});
  const ValueId right = b.conv("right", b.lrn(x, {.size = 3, .alpha = 0.2f}), {.outputs = 7});
  const ValueId both = b.concat({left, right});
  ValueId y = b.relu(b.add({b.conv("mixed", both, {.outputs = 12}), both}));
  y = b.add({y, x});
  b.softmaxLoss("aux", b.dense("aux.logits", b.globalAveragePool(y), {.outputs = 5}), {.weight = 0.3f});
  b.softmaxLoss("loss",
                b.dense("logits", b.concat({b.averagePool(y, 2, 2), b.maxPool(x, 2, 2)}), {.outputs = 5}));
  return b.build();
}

// One group to a worker, several, and several workers to one.
Graph groups() {
  ModelBuilder b({4, 5, 5}, 4);
  ValueId x = b.convRelu("first", b.input(), {.outputs = 8, .kernel = 3, .groups = 2});
  x = b.convRelu("second", x, {.outputs = 12, .kernel = 3, .padding = Padding::same(), .groups = 4});
  x = b.conv("third", x, {.outputs = 9, .groups = 3, .bias = false});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4, .bias = false}));
  return b.build();
}

// Batch norms with and without a ReLU to fuse, of one part and of several.
Graph norms() {
  ModelBuilder b({3, 5, 5}, 4);
  ValueId x =
      b.relu(b.batchNorm("norm1", b.conv("conv1", b.input(), {.outputs = 17, .kernel = 3, .bias = false})));
  const ValueId left = b.batchNorm("norm2", b.conv("conv2", x, {.outputs = 6}));
  x = b.batchNorm("norm3", b.concat({left, b.conv("conv3", x, {.outputs = 5})}));
  b.softmaxLoss("loss", b.dense("logits", b.relu(x), {.outputs = 4}));
  return b.build();
}

Graph dropouts() {
  ModelBuilder b({3, 4, 4}, 4);
  ValueId x = b.dropout(b.convRelu("conv", b.dropout(b.input(), 0.2f), {.outputs = 10, .kernel = 3}), 0.3f);
  x = b.dropout(b.denseRelu("fc1", x, {.outputs = 13}), 0.5f);
  x = b.dropout(b.dense("fc2", x, {.outputs = 9}), 0.4f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}));
  return b.build();
}

// Read by both kinds of layers, and directly by others.
Graph inputs() {
  ModelBuilder b({4, 4, 4}, 4);
  const ValueId left = b.conv("left", b.input(), {.outputs = 6});
  const ValueId right = b.conv("right", b.input(), {.outputs = 8, .groups = 2});
  const ValueId x = b.concat({left, b.relu(b.input()), right, b.input()});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}));
  return b.build();
}

// Images themselves are sent on.
Graph flat() {
  ModelBuilder b({3, 2, 3}, 4);
  const ValueId x = b.denseRelu("fc1", b.input(), {.outputs = 10});
  const ValueId y = b.dense("fc2", b.flatten(b.input()), {.outputs = 10});
  b.softmaxLoss("loss", b.dense("logits", b.add({x, y}), {.outputs = 4}));
  return b.build();
}

std::vector<Network> networks() {
  constexpr LayerSplit kData = LayerSplit::Data;
  constexpr LayerSplit kModel = LayerSplit::Model;
  return {{"plain", plain(), {{"conv2", kModel}, {"fc", kData}}},
          {"branches", branches(), {{"left|mixed", kModel}, {"aux.*", kData}}},
          {"groups", groups(), {{"second", kModel}, {"logits", kData}}},
          {"norms", norms(), {{"conv[23]", kModel}}},
          {"dropouts", dropouts(), {{"fc2", kData}}},
          {"inputs", inputs(), {{"right", kModel}, {"logits", kData}}},
          {"flat", flat(), {{"fc1|logits", kData}}}};
}

std::vector<Strategy> strategiesOf(const Network& network) {
  Strategy mixed = Strategy::hybrid();
  mixed.rules = network.rules;
  return {Strategy::data(),
          Strategy::hybrid(),
          Strategy::model(),
          {LayerSplit::Model, LayerSplit::Data, {}},
          mixed};
}

void expectSameAsAlone(const Network& network, int members, int grains, std::uint32_t disorder) {
  const Round round = namedRound(network.name, network.graph, members, kGrainSize, grains);
  const Alone alone(network.graph, round);
  for (const Strategy& strategy : strategiesOf(network)) {
    SCOPED_TRACE(fmt::format("{}, {} workers, {} grains", toText(strategy), members, grains));
    const Together together = compute(network.graph, strategy, round, disorder);
    alone.expectLoss(together.loss());
    alone.expectGradient(together.gradient());
    if (testing::Test::HasFailure()) return;
  }
}

class DividedNetworkTest : public testing::TestWithParam<std::size_t> {
 protected:
  Network network_ = networks()[GetParam()];
};

TEST_P(DividedNetworkTest, GivesTheLossAndGradientOfTheWholeRound) {
  for (const int members : {1, 2, 3}) expectSameAsAlone(network_, members, members, 0);
}

// It has pixels, so that whatever it added would show.
TEST_P(DividedNetworkTest, PaddingAddsNothing) {
  for (const auto& [members, grains] : {std::pair{2, 1}, {3, 2}, {3, 1}}) {
    expectSameAsAlone(network_, members, grains, 1);
  }
}

TEST_P(DividedNetworkTest, ARoundOfPaddingGivesZeros) {
  Round round = namedRound(network_.name, network_.graph, 2, kGrainSize, 0);
  std::ranges::fill(round.images, 0.0f);
  for (const Strategy& strategy : strategiesOf(network_)) {
    const Together together = compute(network_.graph, strategy, round, 0);
    EXPECT_EQ(together.loss().loss, 0);
    EXPECT_EQ(together.loss().samples, 0);
    const std::vector<float> gradient = together.gradient();
    EXPECT_EQ(std::ranges::count(gradient, 0.0f), std::ssize(gradient)) << toText(strategy);
  }
}

TEST_P(DividedNetworkTest, GivesTheSameBitsWhateverTheOrderOfMessages) {
  const Round round = namedRound(network_.name, network_.graph, 3, kGrainSize, 3);
  for (const Strategy& strategy : strategiesOf(network_)) {
    const Together once = compute(network_.graph, strategy, round, 0);
    for (const std::uint32_t disorder : {1U, 2U}) {
      EXPECT_TRUE(compute(network_.graph, strategy, round, disorder) == once) << toText(strategy);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, DividedNetworkTest, testing::Range<std::size_t>(0, networks().size()),
                         [](const auto& tested) { return networks()[tested.param].name; });

// Channels that do not divide evenly: over five workers at whole blocks, over seven, for which there are too few blocks, between any two.
TEST(DividedUnevenly, GivesTheLossAndGradientOfTheWholeRound) {
  ModelBuilder b({3, 4, 4}, 8);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 96, .kernel = 3, .padding = Padding::same()});
  x = b.conv("conv2", b.lrn(b.maxPool(x, 2, 2), {.size = 3}), {.outputs = 96, .kernel = 2});
  b.softmaxLoss("loss", b.dense("logits", b.denseRelu("fc", b.relu(x), {.outputs = 24}), {.outputs = 8}));
  const Network network{"uneven", b.build(), {{"conv2", LayerSplit::Model}, {"fc", LayerSplit::Data}}};
  const std::map<int, std::vector<std::int64_t>> widths = {{5, {16, 16, 16, 16, 32}},
                                                           {7, {13, 14, 14, 13, 14, 14, 14}}};
  for (const auto& [members, expected] : widths) {
    std::vector<std::int64_t> parts;
    for (int index = 0; index < members; ++index) {
      parts.push_back(
          partition(network.graph, Strategy::model(), {index, members}).graph.shapeOf(1).channels);
    }
    EXPECT_EQ(parts, expected);
    expectSameAsAlone(network, members, members, 1);
  }
}

// Two lanes of each worker at once, with rounds of their own: what each computes alone, in every bit.
TEST(DividedLanes, DoNotHearEachOther) {
  const Graph graph = branches();
  const Round rounds[2] = {namedRound("first", graph, 2, kGrainSize, 2),
                           namedRound("second", graph, 2, kGrainSize, 2)};
  const Together alone[2] = {compute(graph, Strategy::model(), rounds[0], 0),
                             compute(graph, Strategy::model(), rounds[1], 0)};
  const std::vector<float> parameters = reference::variedParameters(graph);
  asGroup(2, 3, [&](Communicator& communicator) {
    const auto index = static_cast<std::size_t>(communicator.rank());
    const LocalGraph& local = alone[0].locals[index];
    const ExecutionPlan plan = compile(local, {.grainSize = kGrainSize});
    PreparedWeights prepared(plan, parameters);
    prepared.refresh({});
    std::vector<std::jthread> lanes;
    for (int lane = 0; lane < 2; ++lane) {
      lanes.emplace_back([&, lane] {
        singleThreadedKernels();
        MemberLane own(plan, prepared, communicator, lane * lanePortTags(local.graph), kSeed);
        const Batch batch = rounds[lane].of(local);
        for (int time = 0; time < 10; ++time) {
          ASSERT_EQ(own.executor.forward(batch).loss, alone[lane].losses[index].loss);
          RecordingSink sink(plan.layout());
          own.executor.backward(sink);
          const std::vector<float>& expected = alone[lane].gradients[index];
          ASSERT_EQ(std::memcmp(sink.gradient().data(), expected.data(), expected.size() * sizeof(float)), 0);
        }
      });
    }
  });
}

// As many lanes as there are, each from its first tag on.
TEST(DividedLanes, UseNotMoreTagsThanTheySay) {
  constexpr int kFirst = 1000;
  const Graph graph = branches();
  const Round round = namedRound("tags", graph, 2, kGrainSize, 2);
  const std::vector<float> parameters = reference::variedParameters(graph);
  NotedTags tags;
  ThreadHub hub(2);
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      const LocalGraph local = partition(graph, Strategy::model(), {rank, 2});
      count = lanePortTags(local.graph);
      threads.emplace_back([&, rank, local] {
        singleThreadedKernels();
        Communicator communicator(std::make_unique<NotingTransport>(hub.transport(rank), tags), 60);
        const ExecutionPlan plan = compile(local, {.grainSize = kGrainSize});
        PreparedWeights prepared(plan, parameters);
        prepared.refresh({});
        MemberLane lane(plan, prepared, communicator, kFirst);
        const Batch batch = round.of(local);
        lane.executor.forward(batch);
        RecordingSink sink(plan.layout());
        lane.executor.backward(sink);
      });
    }
  }
  EXPECT_GE(tags.least(), kFirst);
  EXPECT_LT(tags.largest(), kFirst + count);
  EXPECT_GT(tags.largest(), tags.least());
}

// A worker reads no weight that is another's: those may be old.
TEST(DividedWeights, OfOthersAreNotRead) {
  const Graph graph = norms();
  const Round round = namedRound("old", graph, 2, kGrainSize, 2);
  const Together expected = compute(graph, Strategy::model(), round, 0);
  const std::vector<float> parameters = reference::variedParameters(graph);
  asGroup(2, 0, [&](Communicator& communicator) {
    const auto index = static_cast<std::size_t>(communicator.rank());
    const LocalGraph& local = expected.locals[index];
    std::vector<float> own(parameters.size(), std::nanf(""));
    for (const Parameter& parameter : local.layout.parameters()) {
      std::copy_n(parameters.begin() + static_cast<std::ptrdiff_t>(parameter.offset), parameter.size,
                  own.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
    }
    const ExecutionPlan plan = compile(local, {.grainSize = kGrainSize});
    PreparedWeights prepared(plan, own);
    prepared.refresh({});
    MemberLane lane(plan, prepared, communicator, 0, kSeed);
    EXPECT_EQ(lane.executor.forward(round.of(local)).loss, expected.losses[index].loss);
  });
}

}  // namespace
}  // namespace cohort
