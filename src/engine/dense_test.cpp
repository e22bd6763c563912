#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::networkAround;
using reference::NetworkCase;

std::vector<NetworkCase> denseCases() {
  std::vector<NetworkCase> cases;
  int turn = 0;
  for (const Shape& shape : {Shape{1, 1, 1}, {33, 1, 1}, {16, 1, 1}, {3, 5, 7}, {8, 4, 4}, {10, 3, 3}}) {
    for (const int outputs : {1, 7, 16, 33}) {
      for (const bool relu : {false, true}) {
        ++turn;
        const bool bias = turn % 3 != 0;
        cases.push_back({.name = fmt::format("{}ch_{}x{}_to_{}_bias{}_relu{}", shape.channels, shape.height,
                                             shape.width, outputs, bias ? 1 : 0, relu ? 1 : 0),
                         .graph = networkAround(shape,
                                                [&](ModelBuilder& b, ValueId x) {
                                                  x = b.dense("tested", x,
                                                              {.outputs = outputs, .bias = bias});
                                                  return relu ? b.relu(x) : x;
                                                }),
                         .samples = turn % 5 == 0 ? 1 : turn % 4 + 1});
      }
    }
  }
  return cases;
}

class DenseTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(DenseTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, DenseTest, testing::ValuesIn(denseCases()), reference::caseName);

TEST(DenseTest, IsTheFirstLayerOfAnImage) {
  for (const bool bias : {true, false}) {
    ModelBuilder b({3, 4, 5}, 3);
    const ValueId hidden = b.denseRelu("hidden", b.input(), {.outputs = 12, .bias = bias});
    b.softmaxLoss("loss", b.dense("logits", hidden, {.outputs = 3, .bias = bias}));
    reference::expectMatchesReference({.name = "dense_only", .graph = b.build(), .samples = 5});
  }
}

TEST(DenseTest, MatchesTheReferenceWhenItsGradientIsFinishedInPieces) {
  // 2,101,312 weights: four pieces of 512 rows and one of 4.
  ModelBuilder b({4, 16, 16}, 3);
  const ValueId x = b.conv("front", b.input(), {.outputs = 4});
  const ValueId hidden = b.denseRelu("hidden", x, {.outputs = 2052});
  b.softmaxLoss("loss", b.dense("logits", hidden, {.outputs = 3}));
  const Graph graph = b.build();
  const ParameterLayout layout = parameterLayout(graph);
  ASSERT_GT(layout.at(layout.find("hidden.weight")).pieceCount, 1);
  reference::expectMatchesReference({.name = "pieces", .graph = graph, .samples = 2});
}

}  // namespace
}  // namespace cohort
