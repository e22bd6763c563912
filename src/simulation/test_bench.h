// For tests only: a workbench whose gradients are invented, and a run's beginning for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/float_buffer.h"
#include "center/setup.h"
#include "simulation/center_simulation.h"
#include "simulation/lockstep_simulation.h"

namespace cohort {

inline constexpr std::size_t kTestFloats = 12;  // 48 bytes

inline std::vector<ParameterSpec> testParameters() {
  return {{.name = "a", .shape = {4}, .initializer = {}},
          {.name = "mean",
           .shape = {3},
           .initializer = {},
           .kind = ParameterKind::RunningStatistic,
           .statisticDecay = 0.75F},
          {.name = "b", .shape = {5}, .initializer = {}}};
}

// Depends on the weights, the step and the grain; exact in float for a few steps.
inline float inventedGradient(std::size_t i, Step step, GrainIndex grain, float weight) {
  return static_cast<float>((static_cast<int>(i) * 7 + static_cast<int>(step) * 5 + grain * 3) % 11 - 5) / 8 +
         weight / 4;
}

class InventedBench : public Workbench {
 public:
  explicit InventedBench(int grains, int places = 1) : tree_(grains), places_(places) {}

  int places() const override { return places_; }
  void compute(std::span<const Task> tasks) override {
    // The last one first: the order must not matter.
    for (std::size_t i = tasks.size(); i > 0; --i) computeOne(tasks[i - 1]);
  }
  int computed() const { return computed_; }

 private:
  void computeOne(const Task& task) {
    ++computed_;
    std::vector<float> weights;
    for (const std::span<const float> slice : task.weights)
      weights.insert(weights.end(), slice.begin(), slice.end());
    const GrainTree own(task.work.grains.count());
    const GrainTree& tree = task.isAlone ? own : tree_;
    const GrainIndex first = task.isAlone ? task.work.grains.first : 0;
    const std::vector<int> nodes = task.isAlone ? std::vector<int>{0} : tree_.cover(task.work.grains);
    std::vector<std::vector<float>> sums;
    std::vector<Result::Node> gradients;
    for (const int node : nodes) sums.push_back(sumOf(tree, node, first, task.work.step, weights));
    for (std::size_t i = 0; i < nodes.size(); ++i) gradients.push_back({nodes[i], sums[i]});
    std::vector<LossSum> losses;
    for (GrainIndex grain = task.work.grains.first; grain < task.work.grains.last; ++grain)
      losses.push_back({.loss = static_cast<double>(grain + 1), .samples = 1});
    task.done({.gradients = gradients, .losses = losses});
  }
  static std::vector<float> sumOf(const GrainTree& tree, int node, GrainIndex first, Step step,
                                  const std::vector<float>& weights) {
    const GrainTree::Node& n = tree.node(node);
    if (n.left >= 0) {
      std::vector<float> sum = sumOf(tree, n.left, first, step, weights);
      const std::vector<float> right = sumOf(tree, n.right, first, step, weights);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
      return sum;
    }
    std::vector<float> sum(weights.size());
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = inventedGradient(i, step, n.grains.first + first, weights[i]);
    return sum;
  }

  GrainTree tree_;
  int places_;
  int computed_ = 0;
};

// What a run begins with: all weights 1, no slots (SGD).
struct TestStart {
  std::vector<float> weights = std::vector<float>(kTestFloats, 1.0F);

  static CenterSetup setup(const CenterRule& rule, Step target, int grains) {
    return {.config = {},
            .parameters = testParameters(),
            .optimizer = {.kind = OptimizerKind::Sgd, .learningRate = 0.125},
            .schedule = "constant",
            .epoch = {.samples = 100, .batch = 10},
            .grains = grains,
            .target = target,
            .rule = rule};
  }
};

inline std::vector<float> weightsAfter(VirtualRun& run) {
  std::vector<float> weights(kTestFloats);
  run.copyState(weights, {});
  return weights;
}

// The virtual times at which steps were done, in milliseconds.
inline std::vector<std::int64_t> runToEnd(VirtualRun& run) {
  std::vector<std::int64_t> times;
  while (const auto progress = run.advance()) times.push_back(run.now() / 1000000);
  return times;
}

}  // namespace cohort
