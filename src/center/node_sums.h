// One step's gradients of some tree nodes, added in tree order as they come: the same bits whoever brings which, and in which order.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "base/float_buffer.h"
#include "base/grain_tree.h"

namespace cohort {

class NodeSums {
 public:
  using Free = std::function<void(FloatBuffer)>;

  // The tree outlives this. `free` takes buffers that are no longer needed. Halves are added as soon as both are there, unless
  // they are to be kept apart until it is known which of them count.
  NodeSums(const GrainTree& tree, bool keepApart, Free free)
      : tree_(tree), keepApart_(keepApart), free_(std::move(free)) {}

  // False, and nothing is changed but that the buffer is freed, where some of the node's grains are there already.
  bool add(int node, FloatBuffer sum);
  // Whether all grains of the node are there, alone or, where halves are added, in a larger sum.
  bool covers(int node) const;
  bool isComplete() const { return covers(kRoot); }
  // Forgets nodes that lie in none of these.
  void keepOnly(std::span<const GrainRange> ranges);
  // The sum of those that are there, in tree order, with the number of their grains. Then nothing is there.
  FloatBuffer take(int& grains);
  void clear() { keepOnly({}); }

 private:
  static constexpr int kRoot = 0;

  bool touches(int node) const;
  FloatBuffer sumBelow(int node, int& grains);

  const GrainTree& tree_;
  bool keepApart_;
  Free free_;
  std::map<int, FloatBuffer> sums_;  // no node above or below another
};

}  // namespace cohort
