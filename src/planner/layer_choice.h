// The best split of every layer by an additive cost, found by dynamic programming. Private to planner.
//
// The cost of a step is taken to be the sum, over the nodes, of computing, of the collectives that bring inputs to where the node needs them,
// and of the exchange of its parameters, of which only a given share counts: the rest hides behind computing. The nodes are decided in
// their order. A *layout* is where a value lies in a group, as in src/parallel/partition.h; what the rest of the network costs depends on what came before
// through the layouts of those values alone that are still read, and on where else they have been brought already. These are
// the states; of all ways into a state only the best is kept, so that the result is exactly the best by this cost. Parts of divided layers
// count as even.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "parallel/strategy.h"
#include "planner/cost_model.h"
#include "planner/step_forecast.h"
#include "planner/worker_network.h"

namespace cohort {

struct LayerChoice {
  std::vector<LayerSplit> splits;  // by node
  double seconds = 0;              // by the additive cost
};

// For a mesh whose groups have several workers. Layers with fewer outputs than a group has workers stay whole.
LayerChoice chooseLayers(const Graph& graph, const Mesh& mesh, const StepSettings& settings,
                         const CostModel& costs, const WorkerNetwork& network, double exchangeShare);

// Whether the node is a layer that a group of so many workers can divide.
bool canDivide(const Node& node, int workers);

}  // namespace cohort
