#include "base/grain_tree.h"

#include "base/error.h"

namespace cohort {

GrainRange shareOf(GrainRange all, Share share) {
  COHORT_CHECK(share.index >= 0 && share.index < share.count, "a share is one of its parts");
  const auto bound = [&](int index) {
    return all.first + static_cast<GrainIndex>(std::int64_t{all.count()} * index / share.count);
  };
  return {bound(share.index), bound(share.index + 1)};
}

GrainTree::GrainTree(int grains) : leaves_(static_cast<std::size_t>(grains), -1) {
  COHORT_CHECK(grains >= 1, "a step has at least one grain");
  nodes_.reserve(2 * static_cast<std::size_t>(grains) - 1);
  build({0, grains}, -1);
}

int GrainTree::build(GrainRange grains, int parent) {
  const int index = nodeCount();
  nodes_.push_back({grains, parent});
  if (grains.count() == 1) {
    leaves_[static_cast<std::size_t>(grains.first)] = index;
    return index;
  }
  const GrainIndex middle = grains.first + (grains.count() + 1) / 2;
  const int left = build({grains.first, middle}, index);
  const int right = build({middle, grains.last}, index);
  nodes_[static_cast<std::size_t>(index)].left = left;
  nodes_[static_cast<std::size_t>(index)].right = right;
  return index;
}

std::vector<int> GrainTree::cover(GrainRange range) const {
  std::vector<int> nodes;
  addCover(0, range, nodes);
  return nodes;
}

void GrainTree::addCover(int index, GrainRange range, std::vector<int>& nodes) const {
  const Node& n = node(index);
  if (n.grains.last <= range.first || n.grains.first >= range.last) return;
  if (n.grains.first >= range.first && n.grains.last <= range.last) {
    nodes.push_back(index);
    return;
  }
  addCover(n.left, range, nodes);
  addCover(n.right, range, nodes);
}

}  // namespace cohort
