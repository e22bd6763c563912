// What a network's nodes cost, as the planner sees it: seconds that somebody has measured, or made up. How many bytes parameters,
// activations and messages have is no matter of cost: the graphs of src/parallel know it exactly.
//
// The words: a node is computed *by data*, one grain on the worker's own samples, or *over m workers*, a whole round of m grains by
// each worker of a group for its part of the channels.
#pragma once

#include <cstddef>
#include <string>

namespace cohort {

struct NodeCost {
  double forwardSeconds = 0;
  double backwardSeconds = 0;  // gradients of inputs and weights together

  bool operator==(const NodeCost&) const = default;
};

// Thread-safe, as far as its implementations are.
class CostModel {
 public:
  virtual ~CostModel() = default;

  // On one lane of a host of speed 1: one grain where `workers` is 1, otherwise one round over so many workers, by the one of them that
  // has the largest part. UsageError where nothing is known of the node.
  virtual NodeCost costOf(const std::string& node, int workers) const = 0;
  // Adding up and applying the gradient of so many floats.
  virtual double updateSeconds(std::size_t floats) const = 0;
};

}  // namespace cohort
