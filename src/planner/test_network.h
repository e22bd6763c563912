// For tests only: small networks with costs that are easy to add up.
#pragma once

#include <string>
#include <vector>

#include "graph/model_builder.h"
#include "planner/cost_table.h"

namespace cohort {

// Dense layers fc1, fc2, … without biases, and a loss: each 1024x1024, one bucket of 4 MiB, and 4 KiB of activations a sample.
inline Graph denseChain(int layers) {
  ModelBuilder b({.channels = 1024}, 1024);
  ValueId x = b.input();
  for (int i = 1; i <= layers; ++i)
    x = b.dense("fc" + std::to_string(i), x, {.outputs = 1024, .bias = false});
  b.softmaxLoss("loss", x);
  return b.build();
}

inline constexpr double kLayerBytes = 4 * 1024 * 1024;
inline constexpr double kValueBytes = 4 * 1024;

// Layers that cost this, and nothing else that costs anything.
inline CostTable evenCosts(const Graph& graph, const NodeCost& layer, double updateSecondsPerFloat = 0) {
  CostTable table(updateSecondsPerFloat);
  for (const Node& node : graph.nodes) {
    const bool isLayer = std::holds_alternative<Conv>(node.op) || std::holds_alternative<Dense>(node.op);
    table.set(node.name, 1, isLayer ? layer : NodeCost{});
  }
  return table;
}

}  // namespace cohort
