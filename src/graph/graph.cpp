#include "graph/graph.h"

#include <algorithm>
#include <cmath>

namespace cohort {
namespace {

// A dense layer's fan-in initialisation is uniform: four values for one Philox block, where a bell takes one
// each.
Initializer denseDefault(std::int64_t fanIn) {
  return Initializer::uniform(static_cast<float>(std::sqrt(6.0 / static_cast<double>(fanIn))));
}

Initializer convDefault(std::int64_t fanIn) {
  return Initializer::normal(static_cast<float>(std::sqrt(2.0 / static_cast<double>(fanIn))));
}

std::vector<ParameterSpec> convParameters(const Conv& op, const std::string& name, const Shape& input) {
  const std::int64_t inputs = input.channels / op.groups;
  const std::int64_t fanIn = inputs * op.kernel.height * op.kernel.width;
  std::vector<ParameterSpec> specs{{.name = name + ".weight",
                                    .shape = {op.outputs, inputs, op.kernel.height, op.kernel.width},
                                    .initializer = op.weightInit.value_or(convDefault(fanIn))}};
  if (op.bias) {
    specs.push_back(
        {.name = name + ".bias", .shape = {op.outputs}, .initializer = Initializer::constant(op.biasInit)});
  }
  return specs;
}

std::vector<ParameterSpec> denseParameters(const Dense& op, const std::string& name, const Shape& input) {
  std::vector<ParameterSpec> specs{{.name = name + ".weight",
                                    .shape = {op.outputs, input.count()},
                                    .initializer = op.weightInit.value_or(denseDefault(input.count())),
                                    .rowsMayFinishApart = true}};
  if (op.bias) {
    specs.push_back(
        {.name = name + ".bias", .shape = {op.outputs}, .initializer = Initializer::constant(op.biasInit)});
  }
  return specs;
}

std::vector<ParameterSpec> batchNormParameters(const BatchNorm& op, const std::string& name,
                                               const Shape& input) {
  const auto spec = [&](const char* suffix, float value, ParameterKind kind) {
    return ParameterSpec{.name = name + suffix,
                         .shape = {input.channels},
                         .initializer = Initializer::constant(value),
                         .kind = kind,
                         .statisticDecay = kind == ParameterKind::RunningStatistic ? op.decay : 0.0f};
  };
  return {spec(".weight", 1.0f, ParameterKind::Weight), spec(".bias", 0.0f, ParameterKind::Weight),
          spec(".running_mean", 0.0f, ParameterKind::RunningStatistic),
          spec(".running_var", 1.0f, ParameterKind::RunningStatistic)};
}

}  // namespace

std::vector<ParameterSpec> parametersOf(const Graph& graph, const Node& node) {
  const Shape& input = graph.shapeOf(node.inputs.front());
  if (const auto* conv = std::get_if<Conv>(&node.op)) return convParameters(*conv, node.name, input);
  if (const auto* dense = std::get_if<Dense>(&node.op)) return denseParameters(*dense, node.name, input);
  if (const auto* norm = std::get_if<BatchNorm>(&node.op))
    return batchNormParameters(*norm, node.name, input);
  return {};
}

ParameterLayout parameterLayout(const Graph& graph) {
  std::vector<ParameterSpec> specs;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (ParameterSpec& spec : parametersOf(graph, *node)) specs.push_back(std::move(spec));
  }
  return ParameterLayout(std::move(specs));
}

Padding resolvePadding(const Padding& padding, Extent kernel, Extent stride, const Shape& input) {
  if (padding.kind == Padding::Kind::Explicit) return padding;
  if (padding.kind == Padding::Kind::Valid) return Padding::all(0);
  const auto total = [](std::int64_t size, int k, int s) {
    const std::int64_t outputs = (size + s - 1) / s;
    return static_cast<int>(std::max<std::int64_t>(0, (outputs - 1) * s + k - size));
  };
  const int vertical = total(input.height, kernel.height, stride.height);
  const int horizontal = total(input.width, kernel.width, stride.width);
  return Padding::sides(vertical / 2, horizontal / 2, vertical - vertical / 2, horizontal - horizontal / 2);
}

std::int64_t multiplyAdds(const Graph& graph, const Node& node) {
  const Shape& output = graph.shapeOf(node.output);
  const Shape& input = graph.shapeOf(node.inputs.front());
  if (const auto* conv = std::get_if<Conv>(&node.op)) {
    return output.count() * (input.channels / conv->groups) * conv->kernel.height * conv->kernel.width;
  }
  if (std::holds_alternative<Dense>(node.op)) return output.count() * input.count();
  return 0;
}

}  // namespace cohort
