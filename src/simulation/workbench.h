// What virtual workers compute, for real: gradients of works, with weights that are given.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/trainable.h"
#include "center/policy.h"

namespace cohort {

class Workbench {
 public:
  virtual ~Workbench() = default;
  // So many works are computed at once.
  virtual int places() const = 0;

  struct Result {
    struct Node {
      int node = 0;           // of the step's tree; 0 of a worker that steps alone
      std::span<float> sums;  // over the node's grains; an arena
    };
    std::span<const Node> gradients;
    std::span<const LossSum> losses;  // by grain
  };
  struct Task {
    Work work;
    bool isAlone = false;                         // its grains are summed by a tree of their own
    std::vector<std::span<const float>> weights;  // slices of the arena, in order
    std::function<void(const Result&)> done;      // called once, on any thread; the result is gone afterwards
  };
  // Returns when all are done. What a task gives does not depend on the others.
  virtual void compute(std::span<const Task> tasks) = 0;
};

}  // namespace cohort
