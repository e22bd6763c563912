#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

constexpr int kLargestDepth = 1202;  // the deepest that was ever published; 1202 = 6 * 200 + 2
constexpr BatchNorm kNorm{.epsilon = 1e-5f, .decay = 0.997f};

Conv conv3x3(int outputs, int stride) {
  return {.outputs = outputs, .kernel = 3, .stride = stride, .padding = Padding::all(1), .bias = false};
}

// Two 3x3 convolutions beside shortcut A, which has no weights: the input itself or, where the image is
// halved and the channels are doubled, its 2x2 averages with zeros for the new channels.
ValueId residualBlock(ModelBuilder& b, const std::string& name, ValueId x, int outputs, int stride) {
  const ValueId shortcut = stride == 1 ? x : b.averagePool(x, stride, stride, Padding::same());
  ValueId y = b.conv(name + "_conv1", x, conv3x3(outputs, stride));
  y = b.relu(b.batchNorm(name + "_bn1", y, kNorm));
  y = b.conv(name + "_conv2", y, conv3x3(outputs, 1));
  y = b.batchNorm(name + "_bn2", y, kNorm);
  return b.relu(b.add({y, shortcut}));
}

// | 32x32x3 | conv 3x3 16 | n blocks of 16 | n of 32, the first /2 | n of 64, the first /2 | mean | fc 10 |
Graph residualNetwork(int depth, const Shape& input, int classes) {
  const int blocks = (depth - 2) / 6;
  ModelBuilder b(input, classes);
  ValueId x = b.conv("conv1", b.input(), conv3x3(16, 1));
  x = b.relu(b.batchNorm("bn1", x, kNorm));
  for (int stage = 1; stage <= 3; ++stage) {
    for (int block = 1; block <= blocks; ++block) {
      const int stride = stage > 1 && block == 1 ? 2 : 1;
      x = residualBlock(b, fmt::format("block{}_{}", stage, block), x, 8 << stage, stride);
    }
  }
  b.softmaxLoss("loss", b.dense("fc", b.globalAveragePool(x), {.outputs = classes}));
  return b.build();
}

Network residual(int depth) {
  return {
      .name = fmt::format("resnet{}", depth),
      .description = fmt::format("residual network for CIFAR, {} layers, shortcut A", depth),
      .recipe = {.imageSize = 32,
                 .classes = 10,
                 .transforms = "pad-crop:4,flip",
                 .batchSize = 128,
                 .grains = 16,
                 .learningRate = 0.1,
                 .weightDecay = 2e-4,
                 .schedule = "piecewise:82=0.1,123=0.01,300=0.002"},
      .build = [depth](const Shape& input, int classes) { return residualNetwork(depth, input, classes); }};
}

// resnet50 is 6 * 8 + 2, but the name belongs to the network for ImageNet.
bool isDepth(int depth) {
  return depth >= 8 && depth <= kLargestDepth && depth % 6 == 2 && depth != 50;
}

std::string wrongDepth(std::string_view name, int depth) {
  const std::string problem =
      fmt::format("there is no network {}: a CIFAR residual network has 6n + 2 layers", name);
  int below = std::min(depth, kLargestDepth);
  while (below >= 8 && !isDepth(below)) --below;
  int above = std::max(depth, 8);
  while (above <= kLargestDepth && !isDepth(above)) ++above;
  if (below < 8) return fmt::format("{}; use resnet{} or deeper", problem, above);
  if (above > kLargestDepth) return fmt::format("{}; use resnet{} or shallower", problem, below);
  return fmt::format("{}; use resnet{} or resnet{}", problem, below, above);
}

std::optional<Network> findResidual(std::string_view name) {
  constexpr std::string_view kPrefix = "resnet";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  if (digits.empty() || digits.size() > 8 || digits.starts_with('0')) return std::nullopt;
  int depth = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), depth);
  if (error != std::errc{} || end != digits.data() + digits.size() || depth < 1) return std::nullopt;
  if (!isDepth(depth)) throw UsageError(wrongDepth(name, depth));
  return residual(depth);
}

}  // namespace

void addCifarResidualNetworks(NetworkRegistry& registry) {
  for (const int depth : {20, 32, 44, 56, 110}) registry.add(residual(depth));
  registry.addFamily("resnetN with N = 6n + 2", findResidual);
}

}  // namespace cohort
