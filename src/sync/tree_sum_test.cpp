#include "sync/tree_sum.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "sync/test_layout.h"

namespace cohort {
namespace {

// Numbers of very different size, so that another order of additions shows in the bits.
float gradientOf(GrainIndex grain, std::size_t place, int step) {
  std::mt19937 random(static_cast<unsigned>(grain * 7919 + static_cast<int>(place) * 31 + step * 104729));
  const float mantissa = static_cast<float>(random() % 100000) / 100000.0f - 0.5f;
  return std::ldexp(mantissa, static_cast<int>(random() % 24) - 12);
}

float serialSum(const GrainTree& tree, int node, std::size_t place, int step) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return gradientOf(n.grains.first, place, step);
  return serialSum(tree, n.left, place, step) + serialSum(tree, n.right, place, step);
}

void computeLane(TreeSum& sum, const ParameterLayout& layout, GrainRange grains, int step) {
  for (GrainIndex grain = grains.first; grain < grains.last; ++grain) {
    GradientSink& sink = sum.sinkFor(grain);
    for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
      const std::span<float> place = sink.open(piece);
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = gradientOf(grain, layout.piece(piece).offset + i, step);
      }
      sink.close(piece);
    }
  }
}

TEST(TreeSum, GivesTheBitsOfASerialTreeForAnyGrainsAndLanes) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const int grains = 1 + static_cast<int>(random() % 17);
    const int lanes = 1 + static_cast<int>(random() % static_cast<unsigned>(grains));
    const ParameterLayout layout = someLayout(random, 300);
    std::vector<float> result(layout.size());
    std::vector<int> completions(layout.pieces().size());
    const GrainTree tree(grains);
    TreeSum sum(layout, tree, {0, grains}, lanes, [&](int, PieceIndex piece, std::span<const float> values) {
      std::memcpy(result.data() + layout.piece(piece).offset, values.data(), values.size_bytes());
      ++completions[static_cast<std::size_t>(piece)];
    });
    for (int step = 0; step < 3; ++step) {
      {
        std::vector<std::jthread> threads;
        for (int lane = 0; lane < lanes; ++lane) {
          threads.emplace_back([&, lane] {
            computeLane(sum, layout, shareOf({0, grains}, {lane, lanes}), step);
          });
        }
      }
      for (std::size_t place = 0; place < layout.size(); ++place) {
        const float expected = serialSum(tree, 0, place, step);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(expected), std::bit_cast<std::uint32_t>(result[place]))
            << grains << " grains, " << lanes << " lanes, place " << place << ", step " << step;
      }
      for (const int count : completions) ASSERT_EQ(count, step + 1);
    }
  }
}

TEST(TreeSum, NeedsTwoArenasForFourGrainsOnOneOrTwoLanes) {
  const ParameterLayout layout({{.name = "w", .shape = {8}, .initializer = Initializer::constant(0)}});
  const auto arenas = [&](int grains, GrainRange range, int lanes) {
    return TreeSum(layout, GrainTree(grains), range, lanes, [](int, PieceIndex, std::span<const float>) {})
        .arenas();
  };
  EXPECT_EQ(arenas(4, {0, 4}, 2), 2);
  EXPECT_EQ(arenas(4, {0, 4}, 1), 2);
  EXPECT_EQ(arenas(2, {0, 2}, 1), 1);
  EXPECT_EQ(arenas(16, {0, 16}, 2), 6);
  EXPECT_EQ(arenas(8, {4, 6}, 1), 1);
  EXPECT_EQ(arenas(8, {3, 6}, 1), 2);
}

TEST(GrainTree, CoversARangeWithItsLargestNodes) {
  const GrainTree tree(8);
  const auto cover = [&](GrainRange range) {
    std::vector<std::pair<int, int>> ranges;
    for (const int node : tree.cover(range))
      ranges.emplace_back(tree.node(node).grains.first, tree.node(node).grains.last);
    return ranges;
  };
  using Ranges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(cover({0, 8}), (Ranges{{0, 8}}));
  EXPECT_EQ(cover({0, 4}), (Ranges{{0, 4}}));
  EXPECT_EQ(cover({2, 5}), (Ranges{{2, 4}, {4, 5}}));
  EXPECT_EQ(cover({1, 7}), (Ranges{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
}

TEST(GrainTree, SplitsInTheMiddleAndReachesEveryGrainOnce) {
  const GrainTree tree(5);
  EXPECT_EQ(tree.nodeCount(), 9);
  EXPECT_EQ(tree.node(tree.node(0).left).grains, (GrainRange{0, 3}));
  EXPECT_EQ(tree.node(tree.node(0).right).grains, (GrainRange{3, 5}));
  for (GrainIndex grain = 0; grain < 5; ++grain) {
    EXPECT_EQ(tree.node(tree.leaf(grain)).grains, (GrainRange{grain, grain + 1}));
  }
}

TEST(ShareOf, CutsARangeWithoutGapsIntoPartsThatDifferByOne) {
  for (int parts = 1; parts <= 9; ++parts) {
    GrainIndex next = 3;
    for (int i = 0; i < parts; ++i) {
      const GrainRange range = shareOf({3, 20}, {i, parts});
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.count(), 17 / parts);
      EXPECT_LE(range.count(), 17 / parts + 1);
      next = range.last;
    }
    EXPECT_EQ(next, 20);
  }
}

}  // namespace
}  // namespace cohort
