// The search for how workers best divide a network, by the planner's own model of a step. A pure function; deterministic.
//
// Candidates are pure data; and for every mesh whose groups have several workers pure model, hybrid, and what dynamic programming
// over the layers finds best (layer_choice.h), once for each of several shares of the exchange that may show. Each is simulated; the fastest
// wins, and of equals the one that comes first. So the result is never slower than pure data, by this model.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "parallel/strategy.h"
#include "planner/cost_model.h"
#include "planner/step_forecast.h"
#include "planner/worker_network.h"

namespace cohort {

struct StrategyForecast {
  Strategy strategy;
  Mesh mesh;
  StepForecast step;

  bool operator==(const StrategyForecast&) const = default;
};

struct SearchResult {
  std::size_t best = 0;                      // among the candidates
  std::vector<StrategyForecast> candidates;  // pure data first; no two are the same

  const StrategyForecast& chosen() const { return candidates[best]; }
  const StrategyForecast& data() const { return candidates.front(); }
};

// For all workers of the network. UsageError where the costs do not know a node, or there are fewer grains than workers.
SearchResult searchStrategy(const Graph& graph, const StepSettings& settings, const CostModel& costs,
                            const WorkerNetwork& network);

// The strategy of these splits, by node; with few rules: data, model, hybrid, or one of them but for the layers that a rule names.
Strategy strategyOf(const Graph& graph, const std::vector<LayerSplit>& splits);

}  // namespace cohort
