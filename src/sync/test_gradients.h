// For tests only: gradients that show every other order of additions, and a run that adds them by hand.
#pragma once

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "base/grain_tree.h"
#include "optim/shard.h"
#include "sync/sync_rule.h"

namespace cohort {

// Numbers of very different size, so that another order of additions shows in the bits. They depend on the weights too, so that
// a worker with other weights than the rest would show.
inline float gradientOf(GrainIndex grain, std::size_t place, Step step, float weight) {
  std::mt19937 random(
      static_cast<unsigned>(grain * 7919 + static_cast<int>(place) * 31 + static_cast<int>(step) * 104729));
  const float mantissa = static_cast<float>(random() % 100000) / 100000.0f - 0.5f;
  return std::ldexp(mantissa, static_cast<int>(random() % 24) - 12) + weight / 64;
}

inline LossSum lossOf(GrainIndex grain, Step step) {
  return {.loss = std::ldexp(1.0 + grain * 0.1, static_cast<int>((grain * 5 + step) % 30)),
          .samples = 2,
          .top1 = grain % 2,
          .top5 = 1};
}

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
};

// The whole tree by hand.
inline Outcome serialRun(const ParameterLayout& layout, const ShardOptions& options, int grains, int steps) {
  Outcome outcome{std::vector<float>(layout.size()), {}};
  initialize(layout, 1, outcome.weights);
  Shard shard(layout, options, outcome.weights);
  const GrainTree tree(grains);
  for (Step step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(tree.nodeCount()),
                                         std::vector<float>(layout.size()));
    std::vector<LossSum> losses(sums.size());
    for (int node = tree.nodeCount() - 1; node >= 0; --node) {
      const GrainTree::Node& n = tree.node(node);
      const auto at = static_cast<std::size_t>(node);
      for (std::size_t i = 0; i < layout.size(); ++i) {
        sums[at][i] = n.left < 0 ? gradientOf(n.grains.first, i, step, outcome.weights[i])
                                 : sums[static_cast<std::size_t>(n.left)][i] +
                                       sums[static_cast<std::size_t>(n.right)][i];
      }
      losses[at] = n.left < 0 ? lossOf(n.grains.first, step) : losses[static_cast<std::size_t>(n.left)];
      if (n.left >= 0) losses[at] += losses[static_cast<std::size_t>(n.right)];
    }
    shard.update(0, sums[0], step);
    outcome.losses.push_back(losses[0].loss);
  }
  return outcome;
}

inline void computeLane(SyncRule& rule, const ParameterLayout& layout, std::span<const float> weights,
                        int lane, Step step) {
  const GrainRange grains = rule.grainsOf(lane);
  for (GrainIndex grain = grains.first; grain < grains.last; ++grain) {
    rule.reportLoss(grain, lossOf(grain, step));
    GradientSink& sink = rule.sinkFor(grain);
    for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
      const std::span<float> place = sink.open(piece);
      const std::size_t offset = layout.piece(piece).offset;
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = gradientOf(grain, offset + i, step, weights[offset + i]);
      }
      sink.close(piece);
    }
  }
}

}  // namespace cohort
