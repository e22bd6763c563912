#include "planner/lane_program.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/test_network.h"

namespace cohort {
namespace {

using testing::ElementsAre;

// "backward fc1 1 closes", "backward begin from-fc1": one line for each task that is not the loss's.
std::vector<std::string> linesOf(const LocalGraph& local, const LaneProgram& program) {
  std::vector<std::string> lines;
  for (const LaneTask& task : program.tasks) {
    const char* pass = task.pass == Pass::Forward ? "forward" : "backward";
    const bool computes = task.kind == LaneTask::Kind::Compute;
    const auto index = static_cast<std::size_t>(task.index);
    const NodeId id = computes ? task.index : program.collectives[index].node;
    const Node& node = local.graph.nodes[static_cast<std::size_t>(id)];
    if (std::holds_alternative<SoftmaxLoss>(node.op)) continue;
    lines.push_back(
        computes ? fmt::format("{} {} {}{}", pass, node.name, task.seconds, task.closes ? " closes" : "")
                 : fmt::format("{} {} {}", pass, task.kind == LaneTask::Kind::Begin ? "begin" : "wait",
                               node.name));
  }
  return lines;
}

TEST(LaneProgram, WithoutCollectivesIsForwardAndBackward) {
  const Graph graph = denseChain(2);
  const LocalGraph local = partition(graph, Strategy::data(), {0, 1});
  EXPECT_THAT(
      linesOf(local, laneProgram(local, evenCosts(graph, {1, 2}), 1)),
      ElementsAre("forward fc1 1", "forward fc2 1", "backward fc2 2 closes", "backward fc1 2 closes"));
}

// Both read what is gathered of fc1; its gradient is complete when the first of them, the last backward, has added to it.
TEST(LaneProgram, AGradientLeavesWhenAllReadersHaveAddedToIt) {
  ModelBuilder b({.channels = 8}, 8);
  const ValueId x = b.dense("fc1", b.input(), {.outputs = 8});
  const ValueId left = b.dense("left", x, {.outputs = 8});
  const ValueId right = b.dense("right", x, {.outputs = 8});
  b.softmaxLoss("loss", b.add({left, right}));
  const Graph graph = b.build();
  const LocalGraph local = partition(graph, Strategy::model(), {0, 2});
  const LaneProgram program = laneProgram(local, evenCosts(graph, {1, 2}), 3);
  EXPECT_THAT(
      linesOf(local, program),
      ElementsAre("forward fc1 1", "forward begin from-fc1", "forward wait from-fc1", "forward left 1",
                  "forward right 1", "forward add4 0", "forward begin from-add4", "forward wait from-add4",
                  "backward begin from-add4", "backward wait from-add4", "backward add4 0",
                  "backward right 2 closes", "backward left 1", "backward begin from-fc1",
                  "backward left 1 closes", "backward wait from-fc1", "backward fc1 2 closes"));
  // Four outputs of two grains of three samples; half of the sums of one grain.
  ASSERT_EQ(program.collectives.size(), 2U);
  EXPECT_THAT(program.collectives[0].bytesTo[0], ElementsAre(0, 4 * 2 * 3 * 4));
  EXPECT_THAT(program.collectives[0].bytesTo[1], ElementsAre(0, 4 * 2 * 3 * 4));
  EXPECT_THAT(program.collectives[1].bytesTo[0], ElementsAre(0, 4 * 3 * 4));
}

TEST(LaneProgram, WhatComesBeforeAllParametersHasNoGradient) {
  ModelBuilder b({.channels = 32, .height = 4, .width = 4}, 8);
  const ValueId x = b.conv("conv", b.maxPool(b.input(), 2, 2), {.outputs = 32});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 8}));
  const Graph graph = b.build();
  Strategy strategy;
  strategy.rules = {{"conv", LayerSplit::Model}};
  const LaneProgram program = laneProgram(partition(graph, strategy, {1, 2}), evenCosts(graph, {1, 2}), 1);
  EXPECT_THAT(program.collectives.front().bytesTo[0], ElementsAre(32 * 4 * 4, 0));
  EXPECT_THAT(program.collectives.front().bytesTo[1], ElementsAre(0, 0));
  EXPECT_EQ(program.collectives.front().senders, (std::array<int, 2>{1, 0}));
}

}  // namespace
}  // namespace cohort
