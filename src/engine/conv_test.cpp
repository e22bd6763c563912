#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::networkAround;
using reference::NetworkCase;

enum class Activation { None, Fused, Separate };

// A separate ReLU cannot be fused: what it reads is read again, before and after.
ValueId activate(ModelBuilder& b, ValueId x, Activation activation) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Fused:
      return b.relu(x);
    case Activation::Separate:
      return b.concat({x, b.relu(x)});
  }
  return x;
}

// Everything is in the name, so that a failure tells its case.
NetworkCase convCase(std::int64_t channels, Extent image, const Conv& op, Activation activation,
                     std::int64_t samples) {
  static int number = 0;
  const Padding& p = op.padding;
  const char* padding = p.kind == Padding::Kind::Valid  ? "valid"
                        : p.kind == Padding::Kind::Same ? "same"
                                                        : "explicit";
  return {.name = fmt::format("{}_{}ch_{}x{}_to_{}_k{}x{}_s{}x{}_{}_g{}_bias{}_relu{}_n{}", number++,
                              channels, image.height, image.width, op.outputs, op.kernel.height,
                              op.kernel.width, op.stride.height, op.stride.width, padding, op.groups,
                              op.bias ? 1 : 0, static_cast<int>(activation), samples),
          .graph = networkAround(
              {channels, image.height, image.width},
              [&](ModelBuilder& b, ValueId x) { return activate(b, b.conv("tested", x, op), activation); }),
          .samples = samples};
}

// Every kernel with every stride and kind of padding; the rest rotates through its choices, which together
// have no common period with the loops.
std::vector<NetworkCase> geometries() {
  constexpr std::array<std::array<int, 2>, 11> kChannels{
      {{3, 8}, {1, 5}, {8, 16}, {5, 10}, {16, 24}, {10, 3}, {33, 8}, {24, 33}, {8, 1}, {16, 16}, {8, 8}}};
  constexpr std::array<std::int64_t, 3> kSamples{2, 1, 5};
  const std::array<Extent, 4> kImages{{{7, 9}, {9, 7}, {5, 5}, {8, 11}}};
  std::vector<NetworkCase> cases;
  std::size_t turn = 0;
  for (const Extent kernel : {Extent(1), Extent(2), Extent(3), Extent(5), Extent(7), Extent(11), Extent(3, 1),
                              Extent(1, 5), Extent(2, 3)}) {
    for (const int stride : {1, 2, 3}) {
      for (const Padding& padding :
           {Padding::valid(), Padding::same(),
            Padding::sides(kernel.height / 2, 0, (kernel.height - 1) / 3, kernel.width / 2)}) {
        const Extent image = kernel.height > 5 ? Extent(13, 11) : kImages[turn % kImages.size()];
        std::array<int, 2> channels{};
        do {
          channels = kChannels[++turn % kChannels.size()];
        } while (channels[0] * channels[1] * kernel.height * kernel.width > 6000);
        cases.push_back(convCase(channels[0], image,
                                 {.outputs = channels[1],
                                  .kernel = kernel,
                                  .stride = stride,
                                  .padding = padding,
                                  .bias = turn % 4 != 0},
                                 static_cast<Activation>(turn % 3), kSamples[turn / 2 % kSamples.size()]));
      }
    }
  }
  return cases;
}

std::vector<NetworkCase> groups() {
  struct Grouping {
    int inputs, outputs, groups;
  };
  std::vector<NetworkCase> cases;
  int turn = 0;
  for (const Grouping& g : {Grouping{8, 8, 2},
                            {16, 24, 2},
                            {6, 10, 2},
                            {32, 16, 2},
                            {24, 24, 3},  // a few groups
                            {8, 8, 8},
                            {16, 16, 16},
                            {10, 10, 10},
                            {33, 33, 33},  // depthwise
                            {8, 16, 8},
                            {5, 15, 5}}) {  // several outputs each
    for (const int kernel : {1, 3, 5}) {
      for (const int stride : {1, 2}) {
        ++turn;
        cases.push_back(convCase(g.inputs, {7, 6},
                                 {.outputs = g.outputs,
                                  .kernel = kernel,
                                  .stride = stride,
                                  .padding = Padding::same(),
                                  .groups = g.groups,
                                  .bias = turn % 3 != 0},
                                 static_cast<Activation>(turn % 3), 1 + turn % 2));
      }
    }
  }
  return cases;
}

// Strides that differ, and a convolution that reads the image itself (no input gradient).
std::vector<NetworkCase> others() {
  std::vector<NetworkCase> cases{
      convCase(8, {9, 9}, {.outputs = 8, .kernel = 3, .stride = {1, 2}}, Activation::Fused, 2),
      convCase(3, {9, 10}, {.outputs = 5, .kernel = {4, 3}, .stride = {3, 1}}, Activation::Separate, 1),
      convCase(16, {1, 1}, {.outputs = 16}, Activation::Fused, 5),
      convCase(16, {2, 2}, {.outputs = 8, .kernel = 3, .padding = Padding::all(1)}, Activation::None, 1)};
  for (const int channels : {1, 3, 4}) {
    ModelBuilder b({channels, 11, 11}, 3);
    ValueId x =
        b.convRelu("first", b.input(), {.outputs = 8, .kernel = 5, .stride = 2, .padding = Padding::all(2)});
    x = b.convRelu("second", x, {.outputs = 6, .kernel = 3, .padding = Padding::same()});
    b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 3}));
    cases.push_back({.name = fmt::format("first_layer_{}ch", channels), .graph = b.build(), .samples = 2});
  }
  return cases;
}

class ConvTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(ConvTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Geometry, ConvTest, testing::ValuesIn(geometries()), reference::caseName);
INSTANTIATE_TEST_SUITE_P(Groups, ConvTest, testing::ValuesIn(groups()), reference::caseName);
INSTANTIATE_TEST_SUITE_P(Others, ConvTest, testing::ValuesIn(others()), reference::caseName);

}  // namespace
}  // namespace cohort
