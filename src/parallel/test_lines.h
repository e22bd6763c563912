// For tests only: spreads and workers' graphs as lines to compare with.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/partition.h"

namespace cohort {

// "round 0-8+16-32 8-16+32-48": by worker, its channels.
inline std::string text(const Spread& spread) {
  std::string line = spread.samples == Spread::Samples::Own ? "own" : "round";
  for (const std::vector<ChannelRange>& ranges : spread.channels) {
    std::string joined;
    for (const ChannelRange& range : ranges) {
      joined += fmt::format("{}{}-{}", joined.empty() ? "" : "+", range.first, range.last);
    }
    line += " " + joined;
  }
  return line;
}

inline std::string text(const Op& op) {
  const auto* moved = std::get_if<Redistribute>(&op);
  return moved == nullptr ? describe(op) : fmt::format("{} to {}", text(moved->from), text(moved->to));
}

// "fc [5] dense 6 -> 6x1x1 x2": its name, the values that it reads, its operator, its output's shape and grains.
inline std::vector<std::string> nodesOf(const LocalGraph& local) {
  std::vector<std::string> lines;
  for (const Node& node : local.graph.nodes) {
    EXPECT_EQ(node.id, std::ssize(lines));
    EXPECT_EQ(node.output, node.id + 1);
    const Shape& shape = local.graph.shapeOf(node.output);
    lines.push_back(fmt::format("{} [{}] {} -> {}x{}x{} x{}", node.name, fmt::join(node.inputs, ","),
                                text(node.op), shape.channels, shape.height, shape.width,
                                local.graph.grainsIn(node.output)));
  }
  return lines;
}

// "fc.weight 6x512 at 65 private".
inline std::vector<std::string> parametersOf(const LocalGraph& local) {
  std::vector<std::string> lines;
  EXPECT_EQ(local.isPrivate.size(), local.layout.parameters().size());
  for (const Parameter& parameter : local.layout.parameters()) {
    lines.push_back(fmt::format("{} {} at {}{}", parameter.name, fmt::join(parameter.shape, "x"),
                                parameter.offset, local.isPrivate.at(lines.size()) ? " private" : ""));
  }
  return lines;
}

}  // namespace cohort
