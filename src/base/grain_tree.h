// The one fixed binary tree that sums a step's grains. It depends on the number of grains alone: who computes
// a grain, and when, never changes the order of the additions.
//
// A node covers the grains [first, last); it is split in the middle, the left half taking the odd one. Leaves
// are grains. Node 0 is the root.
#pragma once

#include <vector>

#include "base/batch.h"
#include "base/trainable.h"

namespace cohort {

// Grains [first, last).
struct GrainRange {
  GrainIndex first = 0;
  GrainIndex last = 0;

  int count() const { return last - first; }
  bool operator==(const GrainRange&) const = default;
};

// The contiguous part of `all` that one of several equals computes; parts differ by one grain at most.
GrainRange shareOf(GrainRange all, Share share);

class GrainTree {
 public:
  struct Node {
    GrainRange grains;
    int parent = -1;
    int left = -1;  // -1: a leaf
    int right = -1;
  };

  explicit GrainTree(int grains);

  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  int nodeCount() const { return static_cast<int>(nodes_.size()); }
  // The largest nodes that together cover a range and nothing else, from left to right.
  std::vector<int> cover(GrainRange range) const;
  int leaf(GrainIndex grain) const { return leaves_[static_cast<std::size_t>(grain)]; }
  bool isLeft(int index) const { return node(index).parent >= 0 && node(node(index).parent).left == index; }

 private:
  int build(GrainRange grains, int parent);
  void addCover(int index, GrainRange range, std::vector<int>& nodes) const;

  std::vector<Node> nodes_;
  std::vector<int> leaves_;
};

}  // namespace cohort
