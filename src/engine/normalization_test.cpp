// Local response normalisation and batch normalisation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::networkAround;
using reference::NetworkCase;

// With alpha = 1e-4 an LRN hardly does anything, so most cases have a large one.
std::vector<NetworkCase> lrnCases() {
  std::vector<NetworkCase> cases;
  int turn = 0;
  for (const int size : {1, 3, 5, 9}) {
    for (const float beta : {0.75f, 0.5f, 1.1f}) {
      for (const std::int64_t channels : {1, 5, 8, 16, 33}) {
        const Lrn op{.size = size,
                     .bias = turn % 2 == 0 ? 1.0f : 2.0f,
                     .alpha = ++turn % 7 == 0 ? 1e-4f : 0.4f,
                     .beta = beta};
        cases.push_back({.name = fmt::format("size{}_beta{:.0f}_{}ch", size, beta * 100, channels),
                         .graph = networkAround({channels, 3, 5},
                                                [&](ModelBuilder& b, ValueId x) { return b.lrn(x, op); }),
                         .samples = turn % 3 + 1});
      }
    }
  }
  return cases;
}

// `after`: what follows, for the fused ReLU and for one that cannot be fused.
enum class After { Nothing, Relu, ReluAndItself };

std::vector<NetworkCase> batchNormCases() {
  std::vector<NetworkCase> cases;
  for (const std::int64_t channels : {1, 3, 5, 8, 10, 16, 24, 33}) {
    for (const After after : {After::Nothing, After::Relu, After::ReluAndItself}) {
      for (const std::int64_t samples : {1, 2, 5}) {
        const BatchNorm op{.epsilon = samples == 2 ? 1e-3f : 1e-5f};
        cases.push_back({.name = fmt::format("{}ch_after{}_n{}", channels, static_cast<int>(after), samples),
                         .graph = networkAround({channels, 3, 5},
                                                [&](ModelBuilder& b, ValueId x) {
                                                  x = b.batchNorm("norm", x, op);
                                                  if (after == After::Nothing) return x;
                                                  const ValueId y = b.relu(x);
                                                  return after == After::Relu ? y : b.add({x, y});
                                                }),
                         .samples = samples});
      }
    }
  }
  return cases;
}

class LrnTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(LrnTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
class BatchNormTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(BatchNormTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, LrnTest, testing::ValuesIn(lrnCases()), reference::caseName);
INSTANTIATE_TEST_SUITE_P(Sizes, BatchNormTest, testing::ValuesIn(batchNormCases()), reference::caseName);

TEST(LrnTest, NormalisesTheImageItself) {
  ModelBuilder b({3, 4, 4}, 3);
  const ValueId x = b.lrn(b.input(), {.size = 3, .alpha = 0.5f});
  b.softmaxLoss("loss", b.dense("logits", b.conv("conv", x, {.outputs = 4, .kernel = 3}), {.outputs = 3}));
  reference::expectMatchesReference({.name = "lrn_of_the_image", .graph = b.build()});
}

TEST(BatchNormTest, NormalisesTheImageItself) {
  ModelBuilder b({3, 4, 4}, 3);
  const ValueId x = b.relu(b.batchNorm("norm", b.input()));
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 3}));
  reference::expectMatchesReference({.name = "batch_norm_of_the_image", .graph = b.build(), .samples = 3});
}

TEST(BatchNormTest, NormalisesFlatValues) {
  const Graph graph = networkAround({4, 2, 3}, [](ModelBuilder& b, ValueId x) {
    x = b.batchNorm("norm1", b.dense("hidden", x, {.outputs = 10}));
    return b.relu(b.batchNorm("norm2", b.dense("hidden2", b.relu(x), {.outputs = 16})));
  });
  reference::expectMatchesReference({.name = "flat_batch_norm", .graph = graph, .samples = 7});
}

}  // namespace
}  // namespace cohort
