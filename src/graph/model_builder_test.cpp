#include "graph/model_builder.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

const Shape kImage{.channels = 3, .height = 9, .width = 7};

// What a builder says when it refuses.
std::string refusal(const std::function<void(ModelBuilder&)>& build) {
  return errorOf<UsageError>([&] {
    ModelBuilder b(kImage, 4);
    build(b);
    b.build();
  });
}

TEST(ModelBuilder, ComputesTheShapesOfWindows) {
  ModelBuilder b(kImage, 4);
  const auto shapeOf = [&](const char* name, Conv op) { return b.shape(b.conv(name, b.input(), op)); };
  EXPECT_EQ(shapeOf("valid", {.outputs = 5, .kernel = 3, .stride = 2}), (Shape{5, 4, 3}));
  EXPECT_EQ(shapeOf("same", {.outputs = 5, .kernel = 3, .stride = 2, .padding = Padding::same()}),
            (Shape{5, 5, 4}));
  EXPECT_EQ(shapeOf("explicit", {.outputs = 5, .kernel = {3, 5}, .padding = Padding::sides(1, 0, 2, 3)}),
            (Shape{5, 10, 6}));
  const auto pooled = [&](Pool op) { return b.shape(b.pool(b.input(), op)); };
  EXPECT_EQ(pooled({.kernel = 2, .stride = 2}), (Shape{3, 4, 3}));
  EXPECT_EQ(pooled({.kernel = 2, .stride = 2, .roundUp = true}), (Shape{3, 5, 4}));
  EXPECT_EQ(pooled({.kind = Pool::Kind::Average, .global = true}), (Shape{3, 1, 1}));
  EXPECT_EQ(b.shape(b.flatten(b.input())), (Shape{189, 1, 1}));
  EXPECT_EQ(b.shape(b.concat({b.input(), b.input()})), (Shape{6, 9, 7}));
}

TEST(ModelBuilder, DropsARoundedUpWindowThatWouldBeginInThePaddingBehind) {
  ModelBuilder b({.channels = 1, .height = 3, .width = 3}, 2);
  const Pool op{.kernel = 2, .stride = 2, .padding = Padding::all(1), .roundUp = true};
  EXPECT_EQ(b.shape(b.pool(b.input(), op)), (Shape{1, 2, 2}));
}

TEST(ModelBuilder, PutsTheOddRestOfSamePaddingBehind) {
  const Padding padding = resolvePadding(Padding::same(), 2, 1, {.channels = 1, .height = 5, .width = 5});
  EXPECT_EQ(padding, Padding::sides(0, 0, 1, 1));
  // A stride larger than the kernel needs no padding.
  EXPECT_EQ(resolvePadding(Padding::same(), 1, 3, {.channels = 1, .height = 7, .width = 7}), Padding::all(0));
}

TEST(ModelBuilder, LaysParametersOutInBackwardOrder) {
  ModelBuilder b(kImage, 4);
  ValueId x = b.conv("conv", b.input(), {.outputs = 6, .kernel = 3, .groups = 3, .bias = false});
  x = b.batchNorm("norm", x, {.decay = 0.5f});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}));
  const Graph graph = b.build();
  const ParameterLayout layout = parameterLayout(graph);
  std::vector<std::string> names;
  for (const Parameter& parameter : layout.parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"logits.weight", "logits.bias", "norm.weight", "norm.bias",
                                             "norm.running_mean", "norm.running_var", "conv.weight"}));
  EXPECT_EQ(layout.at(layout.find("conv.weight")).shape, (std::vector<std::int64_t>{6, 1, 3, 3}));
  EXPECT_EQ(layout.at(layout.find("norm.running_var")).kind, ParameterKind::RunningStatistic);
  EXPECT_EQ(layout.at(layout.find("norm.running_var")).statisticDecay, 0.5f);
  EXPECT_EQ(layout.weightCount(), 4U * 210 + 4 + 12 + 54);
  EXPECT_EQ(multiplyAdds(graph, graph.nodes[0]), 6 * 7 * 5 * 9);
}

TEST(ModelBuilder, BuildsEqualGraphsFromEqualCalls) {
  const auto build = [](int outputs) {
    ModelBuilder b(kImage, 4);
    b.softmaxLoss("loss",
                  b.dense("logits", b.denseRelu("fc", b.input(), {.outputs = outputs}), {.outputs = 4}));
    return b.build();
  };
  EXPECT_EQ(build(8), build(8));
  EXPECT_NE(build(8), build(9));
}

TEST(ModelBuilder, RefusesWhatCannotBeBuiltInASentenceThatNamesTheLayer) {
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.conv("c", b.input(), {.outputs = 4, .kernel = 11}); }),
                  "layer c (conv 11x11/1 4) does not fit its 9x7 input; use larger images");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.conv("c", b.input(), {.outputs = 4, .groups = 2}); }),
                  "2 groups");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.conv("c", b.input(), {.outputs = 0}); }),
                  "at least 1 output");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.lrn(b.input(), {.size = 4}); }), "must be odd");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.dropout(b.input(), 1.0f); }), "[0, 1)");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) {
                    b.conv("c", b.input(), {.outputs = 4});
                    b.conv("c", b.input(), {.outputs = 4});
                  }),
                  "two layers are called c");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) {
                    b.concat({b.input(), b.maxPool(b.input(), 2, 2)});
                  }),
                  "height or width");
  EXPECT_MENTIONS(
      refusal([](ModelBuilder& b) { b.softmaxLoss("loss", b.dense("d", b.input(), {.outputs = 3})); }),
      "there are 4 classes");
  EXPECT_MENTIONS(refusal([](ModelBuilder& b) { b.dense("d", b.input(), {.outputs = 4}); }), "no loss");
  EXPECT_THROW(ModelBuilder({.channels = 0, .height = 5, .width = 5}, 2), UsageError);
  EXPECT_THROW(ModelBuilder(kImage, 0), UsageError);
}

TEST(ModelBuilder, RefusesALayerThatLeadsToNoLoss) {
  EXPECT_EQ(refusal([](ModelBuilder& b) {
              b.dense("idle", b.input(), {.outputs = 2});
              b.softmaxLoss("loss", b.dense("logits", b.input(), {.outputs = 4}));
            }),
            "layer idle leads to no loss; use its output, or leave it out");
}

TEST(Describe, NamesAnOperatorForTables) {
  EXPECT_EQ(describe(Conv{.outputs = 64, .kernel = 3, .stride = 2, .padding = Padding::all(1)}),
            "conv 3x3/2 pad 1 64");
  EXPECT_EQ(describe(Conv{.outputs = 8, .kernel = {1, 7}, .padding = Padding::same(), .groups = 2}),
            "conv 1x7/1 same 8 groups 2");
  EXPECT_EQ(describe(Pool{.kind = Pool::Kind::Average, .global = true}), "global average-pool");
  EXPECT_EQ(describe(SoftmaxLoss{.weight = 0.3f}), "softmax loss x0.3");
}

}  // namespace
}  // namespace cohort
