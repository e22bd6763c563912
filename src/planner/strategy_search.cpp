#include "planner/strategy_search.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "planner/layer_choice.h"
#include "planner/step_simulation.h"

namespace cohort {
namespace {

// How much of the exchange of parameters may show behind computing.
constexpr double kExchangeShares[] = {1, 0.5, 0.25, 0};

// A regular expression that fits this name alone.
std::string literal(const std::string& name) {
  constexpr std::string_view kSpecial = "^$\\.*+?()[]{}|";
  std::string pattern;
  for (const char letter : name) {
    if (kSpecial.find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

// The layers of this kind whose split is this one.
template <class Layer>
std::vector<const Node*> layersSplit(const Graph& graph, const std::vector<LayerSplit>& splits,
                                     LayerSplit split) {
  std::vector<const Node*> layers;
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<Layer>(node.op) && splits[static_cast<std::size_t>(node.id)] == split)
      layers.push_back(&node);
  }
  return layers;
}

// What most layers of a kind are; the others are added to those that rules name.
template <class Layer>
LayerSplit usualSplit(const Graph& graph, const std::vector<LayerSplit>& splits,
                      std::vector<const Node*>& others) {
  const std::vector<const Node*> data = layersSplit<Layer>(graph, splits, LayerSplit::Data);
  const std::vector<const Node*> model = layersSplit<Layer>(graph, splits, LayerSplit::Model);
  const bool isModel = model.size() > data.size();
  const std::vector<const Node*>& fewer = isModel ? data : model;
  others.insert(others.end(), fewer.begin(), fewer.end());
  return isModel ? LayerSplit::Model : LayerSplit::Data;
}

// As the strategy says, but for layers that are too small for it.
std::vector<LayerSplit> possibleSplits(const Graph& graph, const Strategy& strategy, int workers) {
  std::vector<LayerSplit> splits = splitsOf(graph, strategy);
  for (const Node& node : graph.nodes) {
    if (!canDivide(node, workers)) splits[static_cast<std::size_t>(node.id)] = LayerSplit::Data;
  }
  return splits;
}

std::vector<Mesh> meshesOf(int workers) {
  std::vector<Mesh> meshes;
  for (int members = 2; members <= workers; ++members) {
    if (workers % members == 0) meshes.push_back({.data = workers / members, .model = members});
  }
  return meshes;
}

}  // namespace

Strategy strategyOf(const Graph& graph, const std::vector<LayerSplit>& splits) {
  Strategy strategy;
  std::vector<const Node*> others;
  strategy.convolutions = usualSplit<Conv>(graph, splits, others);
  strategy.denseLayers = usualSplit<Dense>(graph, splits, others);
  // One rule for all that are split alike: networks have many layers, and every rule is looked at for each of them.
  for (const LayerSplit split : {LayerSplit::Data, LayerSplit::Model}) {
    std::string pattern;
    for (const Node* node : others) {
      if (splits[static_cast<std::size_t>(node->id)] != split) continue;
      if (!pattern.empty()) pattern += '|';
      pattern += literal(node->name);
    }
    if (!pattern.empty()) strategy.rules.push_back({pattern, split});
  }
  return strategy;
}

SearchResult searchStrategy(const Graph& graph, const StepSettings& settings, const CostModel& costs,
                            const WorkerNetwork& network) {
  SearchResult result;
  const auto consider = [&](const Strategy& strategy, const Mesh& mesh) {
    const bool isKnown = std::ranges::any_of(result.candidates, [&](const StrategyForecast& candidate) {
      return candidate.strategy == strategy && candidate.mesh == mesh;
    });
    if (isKnown) return;
    result.candidates.push_back(
        {strategy, mesh, simulateStep(graph, strategy, mesh, settings, costs, network)});
    if (result.candidates.back().step.seconds < result.chosen().step.seconds)
      result.best = result.candidates.size() - 1;
  };
  consider(Strategy::data(), {.data = network.workers(), .model = 1});
  for (const Mesh& mesh : meshesOf(network.workers())) {
    std::vector<std::vector<LayerSplit>> proposals{possibleSplits(graph, Strategy::hybrid(), mesh.model),
                                                   possibleSplits(graph, Strategy::model(), mesh.model)};
    for (const double share : kExchangeShares)
      proposals.push_back(chooseLayers(graph, mesh, settings, costs, network, share).splits);
    for (const std::vector<LayerSplit>& splits : proposals) {
      const bool isDivided = std::ranges::count(splits, LayerSplit::Model) > 0;
      if (isDivided) consider(strategyOf(graph, splits), mesh);
    }
  }
  return result;
}

}  // namespace cohort
