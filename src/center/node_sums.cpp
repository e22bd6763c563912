#include "center/node_sums.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {
namespace {

void addInto(std::span<float> sum, std::span<const float> part) {
  float* __restrict to = sum.data();
  const float* __restrict from = part.data();
  for (std::size_t i = 0; i < sum.size(); ++i) to[i] += from[i];
}

bool overlap(const GrainRange& a, const GrainRange& b) {
  return a.first < b.last && b.first < a.last;
}

}  // namespace

bool NodeSums::touches(int node) const {
  const GrainRange& grains = tree_.node(node).grains;
  return std::ranges::any_of(sums_,
                             [&](const auto& sum) { return overlap(tree_.node(sum.first).grains, grains); });
}

bool NodeSums::add(int node, FloatBuffer sum) {
  if (touches(node)) {
    free_(std::move(sum));
    return false;
  }
  while (!keepApart_) {
    const int parent = tree_.node(node).parent;
    if (parent < 0) break;
    const bool isLeft = tree_.isLeft(node);
    const auto other = sums_.find(isLeft ? tree_.node(parent).right : tree_.node(parent).left);
    if (other == sums_.end()) break;
    // Addition of two numbers commutes; that of more does not associate, which is why only halves of one node meet.
    addInto(sum.span(), other->second.span());
    free_(std::move(other->second));
    sums_.erase(other);
    node = parent;
  }
  sums_.emplace(node, std::move(sum));
  return true;
}

bool NodeSums::covers(int node) const {
  const GrainTree::Node& n = tree_.node(node);
  const bool isInOne = std::ranges::any_of(sums_, [&](const auto& sum) {
    const GrainRange& there = tree_.node(sum.first).grains;
    return there.first <= n.grains.first && n.grains.last <= there.last;
  });
  if (keepApart_ ? sums_.contains(node) : isInOne) return true;
  return n.left >= 0 && covers(n.left) && covers(n.right);
}

void NodeSums::keepOnly(std::span<const GrainRange> ranges) {
  for (auto it = sums_.begin(); it != sums_.end();) {
    const GrainRange& grains = tree_.node(it->first).grains;
    if (std::ranges::any_of(ranges, [&](const GrainRange& range) { return overlap(range, grains); })) {
      ++it;
      continue;
    }
    free_(std::move(it->second));
    it = sums_.erase(it);
  }
}

FloatBuffer NodeSums::take(int& grains) {
  grains = 0;
  COHORT_CHECK(!sums_.empty(), "something is there to be added");
  FloatBuffer total = sumBelow(kRoot, grains);
  sums_.clear();
  return total;
}

// An empty buffer where nothing of the node is there.
FloatBuffer NodeSums::sumBelow(int node, int& grains) {
  const auto found = sums_.find(node);
  if (found != sums_.end()) {
    grains += tree_.node(node).grains.count();
    return std::move(found->second);
  }
  if (tree_.node(node).left < 0) return {};
  FloatBuffer left = sumBelow(tree_.node(node).left, grains);
  FloatBuffer right = sumBelow(tree_.node(node).right, grains);
  if (left.size() == 0) return right;
  if (right.size() == 0) return left;
  addInto(left.span(), right.span());
  free_(std::move(right));
  return left;
}

}  // namespace cohort
