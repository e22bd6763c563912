#include <fmt/format.h>

#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

constexpr BatchNorm kNorm{.epsilon = 1e-5f, .decay = 0.9f};

ValueId convNorm(ModelBuilder& b, const std::string& name, const std::string& suffix, ValueId x, Conv op) {
  op.bias = false;
  return b.batchNorm(name + "_bn" + suffix, b.conv(name + "_conv" + suffix, x, op), kNorm);
}

// 1x1 to `width`, 3x3 (which carries the stride), 1x1 to 4 * width, beside a shortcut that is the input
// itself or, at the head of a stage, a 1x1 projection.
ValueId bottleneck(ModelBuilder& b, const std::string& name, ValueId x, int width, int stride) {
  ValueId y = b.relu(convNorm(b, name, "1", x, {.outputs = width}));
  y = b.relu(convNorm(b, name, "2", y,
                      {.outputs = width, .kernel = 3, .stride = stride, .padding = Padding::all(1)}));
  y = convNorm(b, name, "3", y, {.outputs = 4 * width});
  const bool same = b.shape(x) == b.shape(y);
  const ValueId shortcut =
      same ? x : convNorm(b, name + "_shortcut", "", x, {.outputs = 4 * width, .stride = stride});
  return b.relu(b.add({y, shortcut}));
}

// | 224x224x3 | conv 7x7/2 64 | pool 3/2 | 3 blocks of 64 | 4 of 128, /2 | 6 of 256, /2 | 3 of 512, /2 | mean
// | fc C |
Graph resNet50(const Shape& input, int classes) {
  struct Stage {
    int blocks, width, stride;
  };
  ModelBuilder b(input, classes);
  ValueId x = b.conv("conv1", b.input(),
                     {.outputs = 64, .kernel = 7, .stride = 2, .padding = Padding::all(3), .bias = false});
  x = b.relu(b.batchNorm("bn1", x, kNorm));
  x = b.maxPool(x, 3, 2, Padding::all(1));
  int stage = 0;
  for (const auto [blocks, width, stride] :
       {Stage{3, 64, 1}, Stage{4, 128, 2}, Stage{6, 256, 2}, Stage{3, 512, 2}}) {
    ++stage;
    for (int block = 1; block <= blocks; ++block) {
      x = bottleneck(b, fmt::format("block{}_{}", stage, block), x, width, block == 1 ? stride : 1);
    }
  }
  b.softmaxLoss("loss", b.dense("fc", b.globalAveragePool(x), {.outputs = classes}));
  return b.build();
}

}  // namespace

void addResNet50(NetworkRegistry& registry) {
  registry.add({.name = "resnet50",
                .description = "residual network for ImageNet, 50 layers in bottlenecks",
                .recipe = {.batchSize = 64,
                           .grains = 16,
                           .learningRate = 0.025,
                           .weightDecay = 1e-4,
                           .schedule = "piecewise:30=0.1,60=0.01,80=0.001"},
                .build = resNet50});
}

}  // namespace cohort
