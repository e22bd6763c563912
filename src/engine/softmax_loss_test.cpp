#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"
#include "tests/reference/naive_network.h"

namespace cohort {
namespace {

using reference::NetworkCase;
using reference::Samples;
using enum SoftmaxLoss::Reduction;

// Three heads: two in the middle, of which one is not evaluated, and the main one.
Graph threeHeads(SoftmaxLoss::Reduction reduction, float weight) {
  ModelBuilder b({2, 5, 5}, 4);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 8, .kernel = 3});
  b.softmaxLoss("aux1.loss", b.dense("aux1", x, {.outputs = 4}),
                {.reduction = reduction, .weight = weight, .evaluated = false});
  b.softmaxLoss("aux2.loss", b.dense("aux2", b.maxPool(x, 2, 1), {.outputs = 4}),
                {.reduction = reduction, .weight = 0.5f});
  x = b.convRelu("conv2", x, {.outputs = 5, .kernel = 2});
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 4}), {.reduction = reduction});
  return b.build();
}

std::vector<NetworkCase> lossCases() {
  std::vector<NetworkCase> cases;
  for (const std::int64_t samples : {1, 2, 5}) {
    for (const auto reduction : {Mean, Sum}) {
      cases.push_back({.name = fmt::format("heads_{}_n{}", reduction == Mean ? "mean" : "sum", samples),
                       .graph = threeHeads(reduction, 0.3f),
                       .samples = samples});
    }
  }
  ModelBuilder b({3, 4, 4}, 5);
  const ValueId logits =
      b.dense("logits", b.conv("conv", b.input(), {.outputs = 4, .kernel = 3}), {.outputs = 5});
  b.softmaxLoss("first", logits, {.reduction = Sum, .weight = 0.7f});
  b.softmaxLoss("second", logits, {.weight = 2.0f});
  cases.push_back({.name = "two_losses_of_the_same_logits", .graph = b.build(), .samples = 3});
  return cases;
}

class SoftmaxLossTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(SoftmaxLossTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Heads, SoftmaxLossTest, testing::ValuesIn(lossCases()), reference::caseName);

TEST(SoftmaxLossTest, IgnoredSamplesAddNothing) {
  const Graph graph = threeHeads(Mean, 0.3f);
  const std::vector<float> parameters = reference::variedParameters(graph);
  const Samples whole = reference::namedSamples("ignored", graph, 5);
  const Samples padded{
      .images = whole.images,
      .labels = {whole.labels[0], whole.labels[1], whole.labels[2], kIgnoredLabel, kIgnoredLabel},
      .position = 0};
  const Samples three{.images = {whole.images.begin(), whole.images.begin() + 3 * graph.input.count()},
                      .labels = {whole.labels.begin(), whole.labels.begin() + 3},
                      .position = 0};
  Batch batch = padded.batch();
  batch.globalSize = three.batch().globalSize;
  for (const bool training : {false, true}) {
    const auto with = reference::runEngine(graph, parameters, batch, training);
    const auto without = reference::runEngine(graph, parameters, three.batch(), training);
    EXPECT_EQ(with.loss.samples, 3);
    EXPECT_EQ(with.loss.top1, without.loss.top1);
    EXPECT_EQ(with.loss.top5, without.loss.top5);
    EXPECT_NEAR(with.loss.loss, without.loss.loss, 1e-5);
    ASSERT_EQ(with.gradient.size(), without.gradient.size());
    for (std::size_t i = 0; i < with.gradient.size(); ++i) {
      ASSERT_NEAR(with.gradient[i], without.gradient[i], 1e-6);
    }
  }
}

// Logits are the image itself.
LossSum lossOfLogits(const std::vector<float>& logits, int classes, const std::vector<std::int32_t>& labels) {
  const auto rows = static_cast<std::size_t>(classes);
  ModelBuilder b({classes, 1, 1}, classes);
  b.softmaxLoss("loss", b.dense("logits", b.input(), {.outputs = classes, .bias = false}));
  std::vector<float> identity(rows * rows, 0.0f);
  for (std::size_t row = 0; row < rows; ++row) identity[row * rows + row] = 1.0f;
  const Samples samples{.images = logits, .labels = labels, .position = 0};
  return reference::runEngine(b.build(), identity, samples.batch(), false).loss;
}

TEST(SoftmaxLossTest, CountsTheFirstAndTheFirstFive) {
  const std::vector<float> rising{0, 1, 2, 3, 4, 5, 6};
  for (std::int32_t label = 0; label < 7; ++label) {
    const LossSum loss = lossOfLogits(rising, 7, {label});
    EXPECT_EQ(loss.top1, label == 6 ? 1 : 0);
    EXPECT_EQ(loss.top5, label >= 2 ? 1 : 0);
  }
  const std::vector<float> equal(7, 0.5f);  // the lower class comes first
  EXPECT_EQ(lossOfLogits(equal, 7, {0}).top1, 1);
  EXPECT_EQ(lossOfLogits(equal, 7, {1}).top1, 0);
  EXPECT_EQ(lossOfLogits(equal, 7, {4}).top5, 1);
  EXPECT_EQ(lossOfLogits(equal, 7, {5}).top5, 0);
}

TEST(SoftmaxLossTest, CountsAnswersAtTheLastHeadThatEvaluationHas) {
  ModelBuilder b({2, 3, 3}, 4);
  b.softmaxLoss("loss", b.dense("logits", b.input(), {.outputs = 4}));
  b.softmaxLoss("aux.loss", b.dense("aux", b.input(), {.outputs = 4}), {.evaluated = false});
  const Graph graph = b.build();
  const std::vector<float> parameters = reference::variedParameters(graph);
  const Samples samples = reference::namedSamples("counts", graph, 5);
  const LossSum trained = reference::runEngine(graph, parameters, samples.batch(), true).loss;
  const LossSum evaluated = reference::runEngine(graph, parameters, samples.batch(), false).loss;
  EXPECT_EQ(trained.samples, 5);
  EXPECT_EQ(evaluated.samples, 5);
  EXPECT_EQ(trained.top1, evaluated.top1);
}

TEST(SoftmaxLossTest, StaysFiniteForExtremeLogits) {
  EXPECT_NEAR(lossOfLogits({1e4f, -1e4f, 0}, 3, {0}).loss, 0.0, 1e-6);
  EXPECT_NEAR(lossOfLogits({1e4f, -1e4f, 0}, 3, {1}).loss, 2e4, 1e-2);
  EXPECT_NEAR(lossOfLogits({1e30f, 1e30f}, 2, {1}).loss, std::log(2.0), 1e-6);
}

TEST(SoftmaxLossTest, AuxiliaryHeadsExistInTrainingOnly) {
  const Graph light = threeHeads(Mean, 0.0f);
  const Graph heavy = threeHeads(Mean, 10.0f);
  const std::vector<float> parameters = reference::variedParameters(light);
  const Samples samples = reference::namedSamples("heads", light, 3);
  const auto loss = [&](const Graph& graph, bool training) {
    return reference::runEngine(graph, parameters, samples.batch(), training).loss.loss;
  };
  EXPECT_EQ(loss(light, false), loss(heavy, false));
  EXPECT_GT(loss(heavy, true), loss(light, true) + 1.0);
}

}  // namespace
}  // namespace cohort
