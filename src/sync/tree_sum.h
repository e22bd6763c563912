// Sums one worker's grains' gradients in tree order, piece by piece, while the lanes compute: as far as the tree's nodes lie
// in the worker's range of grains. With all grains that is one sum, the root's.
//
// Each lane computes a contiguous range of grains in order. A grain that is its parent's right half, with the
// left half done before by the same lane, needs no arena of its own: its piece is computed into a scratch
// buffer and added while it is still in the cache. With whole subtrees per lane that leaves log2(grains per
// lane) arenas, at least one, for each lane.
//
// Whoever finishes the second half of a node adds the two: never anybody waits. Addition of two numbers
// commutes, so the bits do not depend on who was second.
//
// Thread safety: sinks of different lanes may be used at the same time, one thread for each lane.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "base/grain_tree.h"
#include "base/trainable.h"

namespace cohort {

class TreeSum {
 public:
  // Called by the lane that finished it, once per step, piece and node of the range's cover, with the sum over the node's
  // grains. It stays where it is until the lanes come to this piece in the next step.
  using Complete = std::function<void(int node, PieceIndex, std::span<float> sum)>;

  TreeSum(const ParameterLayout& layout, const GrainTree& tree, GrainRange range, int lanes,
          Complete complete);
  ~TreeSum();

  GradientSink& sinkFor(GrainIndex grain);
  // Where the sums of a node of the cover lie: an arena.
  std::span<float> arenaOf(int node);
  int arenas() const { return static_cast<int>(arenas_.size()); }

 private:
  class Sink;

  void placeGrains(GrainRange grains);
  // The node's sum for this piece is complete and lies at `values`.
  void finish(int node, PieceIndex piece, float* values);
  float* place(int node, PieceIndex piece);  // a node's sum lies in its leftmost grain's arena

  int arenaIndex(GrainIndex grain) const {
    return arenaOfGrain_[static_cast<std::size_t>(grain - range_.first)];
  }

  const ParameterLayout& layout_;
  const GrainTree& tree_;
  GrainRange range_;
  Complete complete_;
  std::vector<bool> isCover_;      // by node
  std::vector<int> arenaOfGrain_;  // in the range; -1: scratch
  std::vector<FloatBuffer> arenas_;
  std::vector<FloatBuffer> scratch_;  // by lane
  // By node and piece: how often a half was finished. Even: both or none; nothing needs resetting between
  // steps.
  std::vector<std::atomic<std::uint32_t>> finished_;
  std::vector<std::unique_ptr<Sink>> sinks_;  // by grain of the range
};

}  // namespace cohort
