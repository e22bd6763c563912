#include "train/layer_table.h"

#include <cstdint>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

struct KindOf {
  const char* operator()(const Conv&) const { return "conv"; }
  const char* operator()(const Dense&) const { return "dense"; }
  const char* operator()(const Pool&) const { return "pool"; }
  const char* operator()(const Relu&) const { return "activation"; }
  const char* operator()(const Lrn&) const { return "norm"; }
  const char* operator()(const BatchNorm&) const { return "norm"; }
  const char* operator()(const Dropout&) const { return "dropout"; }
  const char* operator()(const Concat&) const { return "concat"; }
  const char* operator()(const Add&) const { return "add"; }
  const char* operator()(const Flatten&) const { return "flatten"; }
  const char* operator()(const Redistribute&) const { return "collective"; }
  const char* operator()(const SoftmaxLoss&) const { return "loss"; }
};

std::string shapeText(const Shape& shape) {
  return shape.pixels() == 1 ? fmt::format("{}", shape.channels)
                             : fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::int64_t weightsOf(const Graph& graph, const Node& node) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : parametersOf(graph, node)) {
    if (spec.kind == ParameterKind::Weight) count += static_cast<std::int64_t>(spec.count());
  }
  return count;
}

Json toObject(const LayerRow& row) {
  return {{"name", row.name},
          {"operator", row.operatorText},
          {"kind", row.kind},
          {"output", row.output},
          {"parameters", row.parameters},
          {"multiply_adds", row.multiplyAdds},
          {"activation_bytes", row.activationBytes},
          {"kernels", row.kernels},
          {"forward_s", row.forwardSeconds},
          {"backward_s", row.backwardSeconds},
          {"update_s", row.updateSeconds}};
}

class NoCount : public std::exception {};

// The JSON library would make anything of 1e300 or of -1.
template <class Count>
Count countOf(const Json& value) {
  if (!value.is_number_unsigned() || !std::in_range<Count>(value.get<std::uint64_t>())) throw NoCount();
  return value.get<Count>();
}

LayerRow fromObject(const Json& json) {
  return {.name = json.at("name"),
          .operatorText = json.at("operator"),
          .kind = json.at("kind"),
          .output = json.at("output"),
          .parameters = countOf<std::int64_t>(json.at("parameters")),
          .multiplyAdds = countOf<std::int64_t>(json.at("multiply_adds")),
          .activationBytes = countOf<std::size_t>(json.at("activation_bytes")),
          .kernels = json.at("kernels"),
          .forwardSeconds = json.at("forward_s"),
          .backwardSeconds = json.at("backward_s"),
          .updateSeconds = json.at("update_s")};
}

}  // namespace

LayerTable layerTable(const ExecutionPlan& plan, std::span<const std::span<const NodeSeconds>> lanes) {
  const Graph& graph = plan.graph();
  LayerTable table;
  for (const NodeReport& report : plan.nodeReports()) {
    const auto index = static_cast<std::size_t>(report.node);
    const Node& node = graph.nodes[index];
    LayerRow row{.name = node.name,
                 .operatorText = describe(node.op),
                 .kind = std::visit(KindOf{}, node.op),
                 .output = shapeText(graph.shapeOf(node.output)),
                 .parameters = weightsOf(graph, node),
                 .multiplyAdds = multiplyAdds(graph, node),
                 .activationBytes = report.activationBytes,
                 .kernels = report.kernel};
    for (const std::span<const NodeSeconds> lane : lanes) {
      COHORT_CHECK(lane.size() == graph.nodes.size(), "the lane's times are another plan's");
      const auto share = static_cast<double>(lanes.size());
      row.forwardSeconds += lane[index].forward / share;
      row.backwardSeconds += lane[index].backward / share;
      row.updateSeconds += lane[index].update / share;
    }
    table.push_back(std::move(row));
  }
  return table;
}

double timeShare(const LayerTable& table, std::string_view kind) {
  double all = 0;
  double wanted = 0;
  for (const LayerRow& row : table) {
    const double seconds = row.forwardSeconds + row.backwardSeconds + row.updateSeconds;
    all += seconds;
    if (row.kind == kind) wanted += seconds;
  }
  return all > 0 ? wanted / all : 0;
}

double denseWeightShare(const Graph& graph) {
  std::int64_t all = 0;
  std::int64_t dense = 0;
  for (const Node& node : graph.nodes) {
    const std::int64_t weights = weightsOf(graph, node);
    all += weights;
    if (std::holds_alternative<Dense>(node.op)) dense += weights;
  }
  return all > 0 ? static_cast<double>(dense) / static_cast<double>(all) : 0;
}

std::string toJson(const LayerTable& table) {
  Json json = Json::array();
  for (const LayerRow& row : table) json.push_back(toObject(row));
  return json.dump(2) + "\n";
}

LayerTable layersFromJson(std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) throw IoError(fmt::format("{} is not a JSON array of layers", source));
  LayerTable table;
  for (const Json& object : json) {
    const auto refuse = [&] {
      throw IoError(
          fmt::format("{}: layer {} lacks a key or has a value of the wrong type", source, table.size()));
    };
    try {
      table.push_back(fromObject(object));
    } catch (const Json::exception&) {
      refuse();
    } catch (const NoCount&) {
      refuse();
    }
  }
  return table;
}

}  // namespace cohort
