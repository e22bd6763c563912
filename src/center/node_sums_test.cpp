#include "center/node_sums.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr std::size_t kFloats = 5;

using Floats = std::vector<float>;

// Numbers whose sum depends on the order.
std::vector<Floats> grainsOf(int count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<Floats> grains;
  for (int i = 0; i < count; ++i) {
    Floats& grain = grains.emplace_back(kFloats);
    for (float& value : grain)
      value = std::ldexp(static_cast<float>(random() % 2000) - 1000.0F, static_cast<int>(random() % 20));
  }
  return grains;
}

Floats serialSum(const GrainTree& tree, int node, const std::vector<Floats>& grains) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return grains[static_cast<std::size_t>(n.grains.first)];
  Floats sum = serialSum(tree, n.left, grains);
  const Floats right = serialSum(tree, n.right, grains);
  for (std::size_t i = 0; i < kFloats; ++i) sum[i] += right[i];
  return sum;
}

FloatBuffer bufferOf(const Floats& values) {
  FloatBuffer buffer(values.size());
  std::ranges::copy(values, buffer.data());
  return buffer;
}

Floats floatsOf(const FloatBuffer& buffer) {
  return {buffer.span().begin(), buffer.span().end()};
}

// Nodes that have all grains together, and none of them twice.
void partition(const GrainTree& tree, int node, std::mt19937& random, std::vector<int>& nodes) {
  if (tree.node(node).left < 0 || random() % 3 == 0) {
    nodes.push_back(node);
    return;
  }
  partition(tree, tree.node(node).left, random, nodes);
  partition(tree, tree.node(node).right, random, nodes);
}

class NodeSumsThat : public testing::TestWithParam<bool> {
 protected:
  NodeSums sumsOf(const GrainTree& tree) {
    return {tree, GetParam(),
            [this](const FloatBuffer& buffer) { freed += buffer.size() == kFloats ? 1 : 0; }};
  }

  int freed = 0;
};

INSTANTIATE_TEST_SUITE_P(AddAtOnceOrKeepApart, NodeSumsThat, testing::Values(false, true));

TEST_P(NodeSumsThat, HaveTheSameBitsForAnyPartitionInAnyOrder) {
  std::mt19937 random(3);
  for (int count = 1; count <= 13; ++count) {
    const GrainTree tree(count);
    const std::vector<Floats> grains = grainsOf(count);
    const Floats expected = serialSum(tree, 0, grains);
    for (int round = 0; round < 20; ++round) {
      std::vector<int> nodes;
      partition(tree, 0, random, nodes);
      std::ranges::shuffle(nodes, random);
      NodeSums sums = sumsOf(tree);
      freed = 0;
      for (const int node : nodes) {
        EXPECT_FALSE(sums.isComplete());
        EXPECT_TRUE(sums.add(node, bufferOf(serialSum(tree, node, grains))));
      }
      EXPECT_TRUE(sums.isComplete());
      int added = 0;
      const FloatBuffer total = sums.take(added);
      EXPECT_EQ(floatsOf(total), expected);
      EXPECT_EQ(added, count);
      EXPECT_EQ(freed, std::ssize(nodes) - 1);
    }
  }
}

TEST_P(NodeSumsThat, RefuseGrainsThatAreThere) {
  const GrainTree tree(8);
  const std::vector<Floats> grains = grainsOf(8);
  NodeSums sums = sumsOf(tree);
  const int quarter = tree.cover({2, 4}).front();
  EXPECT_TRUE(sums.add(quarter, bufferOf(serialSum(tree, quarter, grains))));
  const int half = tree.node(quarter).parent;
  for (const int node : {quarter, half, 0, tree.leaf(2), tree.leaf(3)}) {
    freed = 0;
    EXPECT_FALSE(sums.add(node, bufferOf(Floats(kFloats, 1e20F))));
    EXPECT_EQ(freed, 1);
  }
  for (const GrainRange& range : std::vector<GrainRange>{{0, 2}, {4, 8}}) {
    const int node = tree.cover(range).front();
    EXPECT_TRUE(sums.add(node, bufferOf(serialSum(tree, node, grains))));
  }
  EXPECT_FALSE(sums.add(tree.leaf(7), bufferOf(Floats(kFloats, 1e20F))));
  int added = 0;
  EXPECT_EQ(floatsOf(sums.take(added)), serialSum(tree, 0, grains));
}

TEST_P(NodeSumsThat, KnowWhatTheyCover) {
  const GrainTree tree(6);
  NodeSums sums = sumsOf(tree);
  for (const GrainIndex grain : {3, 4, 5}) sums.add(tree.leaf(grain), bufferOf(Floats(kFloats, 1)));
  EXPECT_TRUE(sums.covers(tree.cover({3, 6}).front()));
  EXPECT_FALSE(sums.covers(tree.leaf(0)));
  EXPECT_FALSE(sums.isComplete());
}

TEST(NodeSums, KeepOnlyWhatCounts) {
  const GrainTree tree(7);
  const std::vector<Floats> grains = grainsOf(7);
  int freed = 0;
  NodeSums sums(tree, true, [&](const FloatBuffer&) { ++freed; });
  for (GrainIndex grain = 0; grain < 7; ++grain)
    sums.add(tree.leaf(grain), bufferOf(grains[static_cast<std::size_t>(grain)]));
  const std::vector<GrainRange> kept = {{0, 2}, {4, 7}};
  sums.keepOnly(kept);
  EXPECT_EQ(freed, 2);
  EXPECT_TRUE(sums.covers(tree.leaf(1)));
  EXPECT_FALSE(sums.covers(tree.leaf(2)));
  // ((0 1) (2 3)) ((4 5) 6), without 2 and 3.
  Floats expected(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i)
    expected[i] = (grains[0][i] + grains[1][i]) + ((grains[4][i] + grains[5][i]) + grains[6][i]);
  int added = 0;
  EXPECT_EQ(floatsOf(sums.take(added)), expected);
  EXPECT_EQ(added, 5);
  EXPECT_EQ(freed, 2 + 4);
}

TEST(NodeSums, AreEmptyAfterwards) {
  const GrainTree tree(2);
  NodeSums sums(tree, false, [](const FloatBuffer&) {});
  sums.add(0, bufferOf(Floats(kFloats, 1)));
  int added = 0;
  sums.take(added);
  EXPECT_FALSE(sums.isComplete());
  EXPECT_TRUE(sums.add(tree.leaf(1), bufferOf(Floats(kFloats, 1))));
}

}  // namespace
}  // namespace cohort
