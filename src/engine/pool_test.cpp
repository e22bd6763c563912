#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::networkAround;
using reference::NetworkCase;

NetworkCase poolCase(std::string_view name, const Shape& shape, const Pool& op, std::int64_t samples) {
  return {.name = fmt::format("{}_{}_{}ch_{}x{}_n{}", op.kind == Pool::Kind::Max ? "max" : "average", name,
                              shape.channels, shape.height, shape.width, samples),
          .graph = networkAround(shape, [&](ModelBuilder& b, ValueId x) { return b.pool(x, op); }),
          .samples = samples};
}

struct Window {
  const char* name;
  Pool op;
};

// What both kinds do alike.
std::vector<Window> windows() {
  return {
      {"k2s2", {.kernel = 2, .stride = 2}},
      {"overlapping_k3s2", {.kernel = 3, .stride = 2}},
      {"k3s1_same", {.kernel = 3, .stride = 1, .padding = Padding::same()}},
      {"k3s2_same", {.kernel = 3, .stride = 2, .padding = Padding::same()}},
      {"k3s2_padded", {.kernel = 3, .stride = 2, .padding = Padding::all(1)}},
      {"k3x2s1x3", {.kernel = {3, 2}, .stride = {1, 3}}},
      {"gaps_k1s3", {.kernel = 1, .stride = 3}},
      {"k4s3_asymmetric", {.kernel = 4, .stride = 3, .padding = Padding::sides(2, 0, 1, 3)}},
      {"k3s2_roundup", {.kernel = 3, .stride = 2, .roundUp = true}},
      {"k2s2_roundup", {.kernel = 2, .stride = 2, .roundUp = true}},
      {"k3s3_padded_roundup", {.kernel = 3, .stride = 3, .padding = Padding::all(1), .roundUp = true}},
      {"global", {.global = true}},
  };
}

std::vector<NetworkCase> poolCases() {
  constexpr std::array<int, 8> kChannels{1, 3, 5, 8, 10, 16, 24, 33};
  constexpr std::array<std::array<int, 2>, 3> kImages{{{7, 9}, {8, 6}, {5, 12}}};
  std::vector<NetworkCase> cases;
  std::size_t turn = 0;
  for (const Pool::Kind kind : {Pool::Kind::Max, Pool::Kind::Average}) {
    for (Window window : windows()) {
      for (int i = 0; i < 3; ++i, ++turn) {
        const auto [height, width] = kImages[turn % kImages.size()];
        window.op.kind = kind;
        cases.push_back(poolCase(window.name, {kChannels[turn % kChannels.size()], height, width}, window.op,
                                 turn % 5 == 0 ? 5 : 1 + static_cast<std::int64_t>(turn % 2)));
      }
    }
  }
  for (Window window : windows()) {
    if (window.op.padding == Padding::valid()) continue;
    window.op.kind = Pool::Kind::Average;
    window.op.countPadding = true;
    for (const int channels : {5, 16}) {
      cases.push_back(
          poolCase(fmt::format("{}_counting_padding", window.name), {channels, 7, 8}, window.op, 2));
    }
  }
  return cases;
}

class PoolTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(PoolTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Windows, PoolTest, testing::ValuesIn(poolCases()), reference::caseName);

TEST(PoolTest, PoolsTheImageItself) {
  ModelBuilder b({3, 8, 8}, 3);
  const ValueId x = b.concat({b.maxPool(b.input(), 2, 2), b.averagePool(b.input(), 2, 2)});
  b.softmaxLoss("loss", b.dense("logits", b.conv("conv", x, {.outputs = 4, .kernel = 3}), {.outputs = 3}));
  reference::expectMatchesReference({.name = "pools_of_the_image", .graph = b.build()});
}

}  // namespace
}  // namespace cohort
