// The collective as an operator, and where its messages stand among a network's tasks. What whole networks compute with it is
// in divided_network_test.cpp.
#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "engine/program.h"
#include "engine/test_group.h"
#include "graph/model_builder.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using Samples = Spread::Samples;
using Ranges = std::vector<std::vector<ChannelRange>>;

constexpr LayerSplit kData = LayerSplit::Data;
constexpr LayerSplit kModel = LayerSplit::Model;

// ---- spreads of seven channels

constexpr std::int64_t kChannels = 7;

Spread everything(Samples samples, int workers) {
  return {samples, Ranges(static_cast<std::size_t>(workers), {{0, kChannels}})};
}
Spread divided(Ranges channels) {
  return {Samples::Round, std::move(channels)};
}

struct Kind {
  std::string name;
  Redistribute op;
};

std::vector<Kind> kindsOf(int workers) {
  const Spread own = everything(Samples::Own, workers);
  const Spread copies = everything(Samples::Round, workers);
  const bool isTwo = workers == 2;
  const Spread channels = divided(isTwo ? Ranges{{{0, 2}}, {{2, 7}}} : Ranges{{{0, 1}}, {{1, 5}}, {{5, 7}}});
  const Spread others = divided(isTwo ? Ranges{{{0, 4}}, {{4, 7}}} : Ranges{{{0, 3}}, {{3, 4}}, {{4, 7}}});
  // As two inputs of a concat leave them.
  const Spread joined = divided(isTwo ? Ranges{{{0, 1}, {3, 5}}, {{1, 3}, {5, 7}}}
                                      : Ranges{{{0, 1}, {3, 4}}, {{1, 2}, {4, 5}}, {{2, 3}, {5, 7}}});
  // As workers that divide a convolution's group need them.
  const Spread shared = divided(isTwo ? Ranges{{{0, 4}}, {{2, 7}}} : Ranges{{{0, 3}}, {{3, 7}}, {{3, 7}}});
  const Spread some = divided(isTwo ? Ranges{{{0, 2}}, {{5, 7}}} : Ranges{{{0, 2}}, {{2, 3}}, {{6, 7}}});
  return {{"own_to_copies", {own, copies}},           {"own_to_channels", {own, channels}},
          {"own_to_joined", {own, joined}},           {"own_to_shared", {own, shared}},
          {"channels_to_own", {channels, own}},       {"channels_to_copies", {channels, copies}},
          {"channels_to_others", {channels, others}}, {"others_to_channels", {others, channels}},
          {"channels_to_joined", {channels, joined}}, {"channels_to_shared", {channels, shared}},
          {"channels_to_some", {channels, some}},     {"joined_to_own", {joined, own}},
          {"joined_to_copies", {joined, copies}},     {"joined_to_channels", {joined, channels}},
          {"copies_to_own", {copies, own}},           {"copies_to_channels", {copies, channels}}};
}

// Calls visit(place, grain, sample, channel, pixel) for each float of a worker's value: where it lies, and what it is of the round's
// whole value.
template <class Visit>
void forEachElement(const Spread& spread, int worker, std::int64_t grainSize, std::int64_t pixels,
                    Visit&& visit) {
  std::size_t place = 0;
  for (int held = 0; held < grainsOf(spread); ++held) {
    const int grain = spread.samples == Samples::Own ? worker : held;
    for (std::int64_t sample = 0; sample < grainSize; ++sample) {
      for (const ChannelRange& range : spread.channels[static_cast<std::size_t>(worker)]) {
        for (std::int64_t channel = range.first; channel < range.last; ++channel) {
          for (std::int64_t pixel = 0; pixel < pixels; ++pixel) visit(place++, grain, sample, channel, pixel);
        }
      }
    }
  }
}

bool has(const Spread& spread, int worker, int grain, std::int64_t channel) {
  const auto& ranges = spread.channels[static_cast<std::size_t>(worker)];
  return (spread.samples == Samples::Round || grain == worker) &&
         std::ranges::any_of(
             ranges, [&](const auto& range) { return channel >= range.first && channel < range.last; });
}

// ---- one worker's end of the collective

// image -> 1x1 convolution -> the collective -> own samples -> loss: something to compile.
LocalGraph around(const Redistribute& op, const Shape& whole, GroupPlace place) {
  const int workers = place.count;
  LocalGraph local;
  local.place = place;
  Graph& graph = local.graph;
  const auto addValue = [&](const Spread& spread) {
    graph.values.push_back({channelsOf(spread, place.index), whole.height, whole.width});
    graph.grains.push_back(grainsOf(spread));
    return graph.values.back().channels;
  };
  const Spread own = everything(Samples::Own, workers);
  addValue(op.from);
  graph.input = graph.values.back();
  graph.classes = static_cast<int>(whole.count());
  graph.nodes.push_back({0, "front", Conv{.outputs = static_cast<int>(addValue(op.from))}, {0}, 1});
  graph.nodes.push_back({1, "moved", op, {1}, 2});
  addValue(op.to);
  graph.nodes.push_back({2, "back", Redistribute{op.to, own}, {2}, 3});
  addValue(own);
  graph.nodes.push_back({3, "flat", Flatten{}, {3}, 4});
  graph.values.push_back({whole.count()});
  graph.grains.push_back(1);
  graph.nodes.push_back({4, "loss", SoftmaxLoss{}, {4}, 5});
  graph.values.push_back({1});
  graph.grains.push_back(1);
  local.layout = parameterLayout(graph);
  return local;
}

// The collective's two tasks of one direction, bound to memory: what it reads, and what it writes.
class Direction {
 public:
  Direction(const std::vector<Task>& tasks, const Program& program, Binder& binder) {
    for (const Task& task : tasks) {
      if (task.node != 1 || task.order == Task::Order::AsEmitted) continue;
      const BufferRef from = task.uses[task.uses.size() - 2];
      const BufferRef to = task.uses.back();
      (task.order == Task::Order::Earliest ? begin_ : finish_) = task.bind(binder);
      in = {binder.at(from), program.lifetimes[static_cast<std::size_t>(from.index)].bytes / sizeof(float)};
      out = {binder.at(to), program.lifetimes[static_cast<std::size_t>(to.index)].bytes / sizeof(float)};
    }
  }

  void run() {
    std::ranges::fill(out, std::nanf(""));
    RunState state;
    begin_(state);
    finish_(state);
  }

  std::span<float> in, out;

 private:
  Action begin_, finish_;
};

// Numbers of very different size: another order of additions would show.
float valueOf(int round, int grain, std::int64_t sample, std::int64_t channel, std::int64_t pixel) {
  const auto mixed = static_cast<int>(((round * 5 + grain) * 7 + sample) * 11 + channel * 13 + pixel * 29);
  return std::ldexp(1.0f + 0.37f * static_cast<float>(mixed % 17), mixed % 23 - 11);
}
float gradientOf(int worker, int round, int grain, std::int64_t sample, std::int64_t channel,
                 std::int64_t pixel) {
  return valueOf(round + 31 * (worker + 1), grain, sample, channel, pixel) * (worker % 2 == 0 ? 1.0f : -1.0f);
}

struct Size {
  std::int64_t grain = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
};

// Every worker has the part of the whole value that `to` says.
void expectForward(const Redistribute& op, const Size& size, int worker, int round, Direction& forward) {
  const std::int64_t pixels = size.height * size.width;
  forEachElement(op.from, worker, size.grain, pixels, [&](std::size_t place, auto... at) {
    ASSERT_LT(place, forward.in.size());
    forward.in[place] = valueOf(round, at...);
  });
  forward.run();
  std::size_t count = 0;
  forEachElement(op.to, worker, size.grain, pixels, [&](std::size_t place, auto... at) {
    ASSERT_EQ(forward.out[place], valueOf(round, at...)) << "worker " << worker << ", place " << place;
    ++count;
  });
  EXPECT_EQ(forward.out.size(), count);
}

// The transpose: an element's gradient is the sum of those of all who got it from this worker, in the order of the workers.
void expectBackward(const Redistribute& op, const Size& size, int worker, int round, Direction& backward) {
  const std::int64_t pixels = size.height * size.width;
  const int workers = static_cast<int>(op.from.channels.size());
  forEachElement(op.to, worker, size.grain, pixels, [&](std::size_t place, auto... at) {
    backward.in[place] = gradientOf(worker, round, at...);
  });
  backward.run();
  const bool isCopied = op.from == everything(Samples::Round, workers);
  forEachElement(op.from, worker, size.grain, pixels,
                 [&](std::size_t place, int grain, auto sample, std::int64_t channel, auto pixel) {
                   float expected = 0;
                   for (int reader = 0; reader < workers; ++reader) {
                     if (!has(op.to, reader, grain, channel) || (isCopied && reader != worker)) continue;
                     expected += gradientOf(reader, round, grain, sample, channel, pixel);
                   }
                   ASSERT_EQ(backward.out[place], expected) << "worker " << worker << ", place " << place;
                 });
}

void expectMoves(const Redistribute& op, int workers, const Size& size, std::uint32_t disorder) {
  asGroup(workers, disorder, [&](Communicator& communicator) {
    const int worker = communicator.rank();
    const LocalGraph local = around(op, {kChannels, size.height, size.width}, {worker, workers});
    const ExecutionPlan plan = compile(local, {.grainSize = size.grain});
    FloatBuffer memory = MemberLane::poisoned(plan.laneBytes() / sizeof(float));
    const std::vector<float> parameters(plan.layout().size());
    const LanePort port{communicator, 5};
    Binder binder(plan.program(), memory.data(), nullptr, parameters.data(), &port);
    Direction forward(plan.program().forward, plan.program(), binder);
    Direction backward(plan.program().backward, plan.program(), binder);
    for (int round = 0; round < 3; ++round) {
      expectForward(op, size, worker, round, forward);
      expectBackward(op, size, worker, round, backward);
    }
  });
}

class RedistributeTest : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(RedistributeTest, GivesEachWorkerItsPartAndSumsWhatComesBack) {
  const auto [workers, index] = GetParam();
  const Kind kind = kindsOf(workers)[index];
  expectMoves(kind.op, workers, {.grain = 2, .height = 2, .width = 3}, 0);
  expectMoves(kind.op, workers, {.grain = 2, .height = 2, .width = 3}, 7);
  // Here more messages need no packing.
  expectMoves(kind.op, workers, {}, 1);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RedistributeTest,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Range<std::size_t>(0, kindsOf(2).size())),
                         [](const auto& tested) {
                           return fmt::format("{}_of_{}", kindsOf(2)[std::get<1>(tested.param)].name,
                                              std::get<0>(tested.param));
                         });

// ---- its messages among a network's tasks

// A task that uses neither what is sent nor what is received: the dense layer's weights gradient.
TEST(RedistributeOrder, TheWeightsGradientIsComputedWhileTheInputsGradientTravels) {
  ModelBuilder b({3, 6, 6}, 4);
  const ValueId x = b.convRelu("conv", b.input(), {.outputs = 8, .kernel = 3});
  b.softmaxLoss("loss", b.dense("logits", b.denseRelu("fc", x, {.outputs = 12}), {.outputs = 4}));
  const LocalGraph local = partition(b.build(), Strategy::hybrid(), {0, 2});
  const ExecutionPlan plan = compile(local, {.grainSize = 2});
  const auto& nodes = local.graph.nodes;
  const auto dense = std::ranges::find(nodes, "fc", &Node::name);
  const NodeId collective = (dense - 1)->id;
  ASSERT_EQ((dense - 1)->name, "from-conv");

  std::vector<std::string> order;  // of both nodes' tasks
  for (const Task& task : plan.program().backward) {
    if (task.node == dense->id && task.kernel == "gemm") order.emplace_back("gemm");
    if (task.node == collective) order.emplace_back(task.order == Task::Order::Earliest ? "begin" : "wait");
  }
  // The first product is the data's, the second the weights'.
  EXPECT_THAT(order, ElementsAre("gemm", "begin", "gemm", "wait"));
}

// Two values move into one sum: the first is waited for when the second is under way.
TEST(RedistributeOrder, AMessageLeavesBeforeAnEarlierOneIsWaitedFor) {
  ModelBuilder b({12, 1, 1}, 4);
  const ValueId left = b.dense("left", b.input(), {.outputs = 8});
  const ValueId right = b.dense("right", b.input(), {.outputs = 8});
  const ValueId sum = b.add({b.lrn(left, {.size = 3}), b.lrn(right, {.size = 3})});
  b.softmaxLoss("loss", b.dense("logits", sum, {.outputs = 4}));
  const LocalGraph local = partition(b.build(), {kData, kModel, {{"logits", kData}}}, {0, 2});
  const ExecutionPlan plan = compile(local, {.grainSize = 2});
  std::vector<std::string> order;
  for (const Task& task : plan.program().forward) {
    const std::string& name = local.graph.nodes[static_cast<std::size_t>(task.node)].name;
    const bool isBegin = task.order == Task::Order::Earliest;
    if (task.order != Task::Order::AsEmitted)
      order.push_back(name + (isBegin ? " begins" : " is waited for"));
    if (name == "right" || name.starts_with("lrn")) order.push_back(name);
  }
  EXPECT_THAT(order, ElementsAre("from-left begins", "right", "from-right begins", "from-left is waited for",
                                 "lrn3", "from-right is waited for", "lrn4"));
}

// On no worker a wait comes before a begin that it came after: otherwise two could wait for each other.
TEST(RedistributeOrder, NoWaitIsMovedBeforeAnEarlierBegin) {
  ModelBuilder b({4, 8, 8}, 6);
  ValueId x = b.convRelu("stem", b.input(), {.outputs = 12, .kernel = 3, .padding = Padding::same()});
  const ValueId left = b.conv("left", x, {.outputs = 12});
  const ValueId right = b.conv("right", b.lrn(x, {.size = 3}), {.outputs = 12});
  x = b.relu(b.add({b.lrn(left, {.size = 3}), right}));
  x = b.conv("grouped", b.concat({x, left}), {.outputs = 24, .groups = 2});
  b.softmaxLoss("aux", b.dense("aux.logits", b.globalAveragePool(x), {.outputs = 6}));
  b.softmaxLoss("loss", b.dense("logits", b.denseRelu("hidden", x, {.outputs = 11}), {.outputs = 6}));
  const Graph graph = b.build();
  for (int index = 0; index < 3; ++index) {
    const ExecutionPlan plan = compile(partition(graph, Strategy::model(), {index, 3}), {.grainSize = 2});
    for (const auto* tasks : {&plan.program().forward, &plan.program().backward}) {
      const bool isForward = tasks == &plan.program().forward;
      std::vector<NodeId> begun;
      std::vector<NodeId> waited;
      for (const Task& task : *tasks) {
        // As they were emitted: nodes in order, and backward in the other.
        const auto isEarlier = [&](NodeId other) {
          return isForward ? task.node < other : task.node > other;
        };
        if (task.order == Task::Order::Earliest) {
          EXPECT_TRUE(std::ranges::none_of(waited, isEarlier)) << "node " << task.node << " begins too late";
          begun.push_back(task.node);
        } else if (task.order == Task::Order::Latest) {
          EXPECT_EQ(std::ranges::count(begun, task.node), 1)
              << "node " << task.node << " is waited for before it began";
          waited.push_back(task.node);
        }
      }
      EXPECT_GE(waited.size(), 4U);
      EXPECT_EQ(begun.size(), waited.size());
    }
  }
}

// Of three workers of four, one stays away; what the other has sent is there.
TEST(RedistributeWait, NamesWhomItWaitedForAndWithWhat) {
  ModelBuilder b({3, 4, 4}, 4);
  b.softmaxLoss("loss", b.dense("logits", b.conv("conv", b.input(), {.outputs = 4}), {.outputs = 4}));
  const Graph graph = b.build();
  const std::vector<float> parameters = reference::variedParameters(graph);
  const Round round = namedRound("alone", graph, 3, 2, 3);
  ThreadHub hub(4);
  std::vector<std::string> sentences(2);
  {
    std::vector<std::jthread> threads;
    for (const int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        singleThreadedKernels();
        const LocalGraph local = partition(graph, Strategy::hybrid(), {rank, 3});
        const ExecutionPlan plan = compile(local, {.grainSize = 2});
        PreparedWeights prepared(plan, parameters);
        prepared.refresh({});
        Communicator communicator(hub.transport(rank), 1);
        MemberLane lane(plan, prepared, Group(communicator, {0, 1, 3}));
        const Batch batch = round.of(local);
        sentences[static_cast<std::size_t>(rank)] = errorOf<PeerError>([&] { lane.executor.forward(batch); });
      });
    }
  }
  EXPECT_THAT(sentences, ElementsAre("worker 0 waited 1 s for worker 3: its part of conv",
                                     "worker 1 waited 1 s for worker 3: its part of conv"));
}

}  // namespace
}  // namespace cohort
