// One worker's graph of a network whose layers are divided over a group: collectives become nodes of it.
//
// A pure function. What follows:
// - A layer split by data works on the worker's own samples, one split by model on the whole round's.
// - Operators without weights stay where their input is; those that look across channels (LRN, the loss) work on own samples.
// - Between two of them that need a value differently there is a Redistribute; what several readers need, they share.
#pragma once

#include <string>
#include <vector>

#include "base/parameter.h"
#include "graph/graph.h"
#include "parallel/strategy.h"

namespace cohort {

// A worker in its group.
struct GroupPlace {
  int index = 0;
  int count = 1;
  bool operator==(const GroupPlace&) const = default;
};

struct LocalGraph {
  Graph graph;
  // What the worker computes of the parameters, where they lie in the whole network's arena.
  ParameterLayout layout;
  // By parameter of the layout: no other worker of the group has these rows.
  std::vector<bool> isPrivate;
  GroupPlace place;
};

LocalGraph partition(const Graph& graph, const Strategy& strategy, GroupPlace place);

// The layer that a value is from: the last one before it that has parameters or several inputs, or "input". The same in the whole graph
// and in a worker's.
std::string layerOf(const Graph& graph, ValueId value);

// What one worker sends to another in a Redistribute (its gradient goes the other way): these grains of its own value, for
// each of them these channels, to these of the other's value.
struct Passage {
  struct Channels {
    std::int64_t from = 0;  // among those that the sender has
    std::int64_t to = 0;    // among those that the receiver has
    std::int64_t count = 0;
    bool operator==(const Channels&) const = default;
  };
  int fromGrain = 0;
  int toGrain = 0;
  int grains = 0;
  std::vector<Channels> channels;  // empty: it sends nothing
  bool operator==(const Passage&) const = default;
};
Passage passage(const Redistribute& op, int from, int to);

// Channels and grains that a worker has.
std::int64_t channelsOf(const Spread& spread, int worker);
int grainsOf(const Spread& spread);

}  // namespace cohort
