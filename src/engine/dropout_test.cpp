#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"
#include "tests/reference/naive_network.h"

namespace cohort {
namespace {

using reference::NaiveNetwork;
using reference::networkAround;
using reference::NetworkCase;
using reference::Samples;

// The reference computes the masks by itself: equal losses and gradients mean equal masks, in every layout.
std::vector<NetworkCase> dropoutCases() {
  std::vector<NetworkCase> cases;
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    for (const std::int64_t channels : {3, 8, 16, 33}) {
      const auto add = [&](const char* name, std::int64_t samples, const reference::Body& body) {
        cases.push_back({.name = fmt::format("{}_rate{:.0f}_{}ch", name, rate * 100, channels),
                         .graph = networkAround({channels, 3, 5}, body),
                         .samples = samples});
      };
      add("alone", 2, [&](ModelBuilder& b, ValueId x) { return b.dropout(x, rate); });
      add("after_relu", 1, [&](ModelBuilder& b, ValueId x) { return b.dropout(b.relu(x), rate); });
      add("flat_after_relu", 5, [&](ModelBuilder& b, ValueId x) {
        return b.dropout(b.denseRelu("hidden", x, {.outputs = 30}), rate);
      });
      add("two_of_one_value", 3, [&](ModelBuilder& b, ValueId x) {
        return b.add({b.dropout(x, rate), b.dropout(x, rate)});
      });
      add("before_conv", 2, [&](ModelBuilder& b, ValueId x) {
        return b.convRelu("conv", b.dropout(x, rate), {.outputs = 8, .kernel = 3});
      });
    }
  }
  return cases;
}

class DropoutTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(DropoutTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rates, DropoutTest, testing::ValuesIn(dropoutCases()), reference::caseName);

// A fixture of two equal images, so that only the masks make a difference.
class DropoutMaskTest : public testing::Test {
 protected:
  DropoutMaskTest() {
    samples_ = reference::namedSamples("masks", graph_, 2);
    const std::size_t half = samples_.images.size() / 2;
    std::copy_n(samples_.images.begin(), half, samples_.images.begin() + static_cast<std::ptrdiff_t>(half));
  }

  // The loss of sample `only` in a batch that begins at `position`.
  double loss(std::size_t only, std::int64_t position, std::uint64_t seed) {
    samples_.labels = {kIgnoredLabel, kIgnoredLabel};
    samples_.labels[only] = 1;
    samples_.position = position;
    return reference::runEngine(graph_, parameters_, samples_.batch(), true, seed).loss.loss;
  }

  Graph graph_ = networkAround({8, 4, 4}, [](ModelBuilder& b, ValueId x) { return b.dropout(x, 0.5f); });
  std::vector<float> parameters_ = reference::variedParameters(graph_);
  Samples samples_;
};

TEST_F(DropoutMaskTest, IsTheSameForTheSamePositionAndSeed) {
  EXPECT_EQ(loss(0, 70, 5), loss(0, 70, 5));
}

TEST_F(DropoutMaskTest, BelongsToTheSampleNotToItsPlaceInTheBatch) {
  // A GEMM may round its rows differently; another mask would change the loss by far more.
  EXPECT_NEAR(loss(1, 70, 5), loss(0, 71, 5), 1e-6);
}

TEST_F(DropoutMaskTest, DiffersBetweenPositions) {
  EXPECT_GT(std::abs(loss(0, 70, 5) - loss(1, 70, 5)), 1e-3);
  EXPECT_GT(std::abs(loss(0, 70, 5) - loss(0, 72, 5)), 1e-3);
  const std::int64_t far = (std::int64_t{1} << 32) + 70;  // the same low word
  EXPECT_GT(std::abs(loss(0, 70, 5) - loss(0, far, 5)), 1e-3);
}

TEST_F(DropoutMaskTest, DiffersBetweenSeeds) {
  EXPECT_GT(std::abs(loss(0, 70, 5) - loss(0, 70, 6)), 1e-3);
}

TEST_F(DropoutMaskTest, MatchesTheReferenceFarIntoARun) {
  samples_.position = (std::int64_t{7} << 32) + 12345;
  const NaiveNetwork naive(graph_, parameters_, samples_.batch(), {.training = true, .seed = 99});
  EXPECT_NEAR(reference::runEngine(graph_, parameters_, samples_.batch(), true, 99).loss.loss,
              naive.lossSum(), 1e-5 * naive.lossSum());
}

}  // namespace
}  // namespace cohort
