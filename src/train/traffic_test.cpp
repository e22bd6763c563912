// What workers send to each other in a step, counted from the division alone.
#include <gtest/gtest.h>

#include "models/network.h"
#include "train/divided_run.h"

namespace cohort {
namespace {

// Of gradients to their owners and of new weights back, all workers together.
std::int64_t exchangedFloats(const BucketPlan& plan) {
  std::int64_t floats = 0;
  for (int bucket = 0; bucket < plan.count(); ++bucket) {
    floats += static_cast<std::int64_t>(plan.bucket(bucket).size());
  }
  return 2 * floats * (plan.workers() - 1);
}

// Of a round's values and their gradients, all workers together.
std::int64_t movedFloats(const LocalGraph& local, std::int64_t grainSize) {
  std::int64_t floats = 0;
  for (const Node& node : local.graph.nodes) {
    const auto* const op = std::get_if<Redistribute>(&node.op);
    if (op == nullptr) continue;
    const std::int64_t pixels = local.graph.shapeOf(node.output).pixels();
    const std::int64_t directions = node.inputs.front() == 0 ? 1 : 2;  // images have no gradient
    for (int from = 0; from < local.place.count; ++from) {
      for (int to = 0; to < local.place.count; ++to) {
        if (from == to) continue;
        const Passage sent = passage(*op, from, to);
        for (const Passage::Channels& part : sent.channels)
          floats += directions * sent.grains * grainSize * part.count * pixels;
      }
    }
  }
  return floats;
}

// Dense layers have most of AlexNet's weights, and few values.
TEST(Traffic, HybridMovesATenthOfDataParallelismsBytesForAlexNet) {
  constexpr int kWorkers = 2;
  constexpr std::int64_t kBatch = 128;
  const Network network = builtinNetworks().find("alexnet");
  const Graph graph =
      network.build({.channels = 3, .height = network.recipe.imageSize, .width = network.recipe.imageSize},
                    network.recipe.classes);
  const std::int64_t byData = exchangedFloats(BucketPlan(parameterLayout(graph), kWorkers));
  const DividedRun hybrid = divide(
      graph, {.strategy = Strategy::hybrid(), .mesh = {.data = 1, .model = kWorkers}, .rank = 0}, kWorkers);
  EXPECT_EQ(exchangedFloats(hybrid.plan.own()), 0) << "nobody else has these rows";
  const std::int64_t exchanged = exchangedFloats(hybrid.plan.shared());
  const std::int64_t moved = movedFloats(hybrid.local, kBatch / kWorkers);
  EXPECT_GT(exchanged, 0);
  EXPECT_GT(moved, 0);
  EXPECT_LT(10 * (exchanged + moved), byData)
      << exchanged << " floats of shared parameters, " << moved << " of values";
}

}  // namespace
}  // namespace cohort
