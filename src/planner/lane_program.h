// What a lane does with each grain, or round, of a step: the tasks of one worker's graph in order. Private to planner.
//
// As the engine has it: a collective begins as soon as its value is complete, and is waited for where what it brings is first needed.
// Backward, a node with parameters computes the gradient of its input in the first half of its time and that of its parameters in the
// second (both are products of the same size), so the former travels during the latter; its parameters' gradients are complete at the
// end of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/partition.h"
#include "planner/cost_model.h"

namespace cohort {

enum class Pass { Forward, Backward };

struct LaneTask {
  enum class Kind {
    Compute,
    Begin,  // of a collective: its messages leave
    Wait    // for all messages of it
  };
  Kind kind = Kind::Compute;
  Pass pass = Pass::Forward;
  int index = 0;        // of the node, or of the collective
  double seconds = 0;   // on a host of speed 1
  bool closes = false;  // behind it the node's parameters have their gradients

  bool operator==(const LaneTask&) const = default;
};

// A Redistribute of the worker's graph, in both directions.
struct LaneCollective {
  NodeId node = 0;
  // By pass and member of the group: what this worker sends to it for a round.
  std::array<std::vector<std::size_t>, 2> bytesTo{};
  std::array<int, 2> senders{};  // by pass: from how many something comes
};

struct LaneProgram {
  std::vector<LaneTask> tasks;
  std::vector<LaneCollective> collectives;
};

LaneProgram laneProgram(const LocalGraph& local, const CostModel& costs, std::int64_t grainSamples);

// By value: whether anything before it has parameters, so that its gradient is computed.
std::vector<bool> needGradients(const Graph& graph);

}  // namespace cohort
