// A network as a value: nodes in execution order, each with one output. Comparable and printable.
#pragma once

#include <string>
#include <vector>

#include "base/parameter.h"
#include "graph/op.h"

namespace cohort {

using ValueId = int;
using NodeId = int;

struct Node {
  NodeId id = 0;
  std::string name;  // "conv1"; its parameters are "conv1.weight", …
  Op op;
  std::vector<ValueId> inputs;
  ValueId output = 0;
  bool operator==(const Node&) const = default;
};

// Value 0 is the input image. Node n's output is value n + 1.
struct Graph {
  Shape input;
  int classes = 0;
  std::vector<Node> nodes;
  std::vector<Shape> values;
  // By value: the grains that it holds at once, where workers compute rounds together; empty: one each.
  std::vector<int> grains;

  int grainsIn(ValueId value) const { return grains.empty() ? 1 : grains[static_cast<std::size_t>(value)]; }
  const Shape& shapeOf(ValueId value) const { return values[static_cast<std::size_t>(value)]; }
  bool operator==(const Graph&) const = default;
};

// The parameters of a node, in the order weight, bias, running_mean, running_var; empty for most operators.
std::vector<ParameterSpec> parametersOf(const Graph& graph, const Node& node);

// All parameters in backward order.
ParameterLayout parameterLayout(const Graph& graph);

// Explicit padding amounts of a convolution or pooling window on `input`, {top, left, bottom, right}.
Padding resolvePadding(const Padding& padding, Extent kernel, Extent stride, const Shape& input);

// Multiply-adds of one sample's forward pass.
std::int64_t multiplyAdds(const Graph& graph, const Node& node);

}  // namespace cohort
