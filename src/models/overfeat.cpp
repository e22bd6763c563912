#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

// OverFeat's fast network.
// | 231x231x3 | conv 11x11/4 96 | pool 2/2 | conv 5x5 256 | pool 2/2 | conv 3x3 512 | 1024 | 1024 | pool 2/2
// | | fc 3072, dropout | fc 4096, dropout | fc C |
Graph overFeat(const Shape& input, int classes) {
  const auto conv3x3 = [](int outputs) {
    return Conv{.outputs = outputs, .kernel = 3, .padding = Padding::all(1)};
  };
  ModelBuilder b(input, classes);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 96, .kernel = 11, .stride = 4});
  x = b.maxPool(x, 2, 2);
  x = b.convRelu("conv2", x, {.outputs = 256, .kernel = 5});
  x = b.maxPool(x, 2, 2);
  x = b.convRelu("conv3", x, conv3x3(512));
  x = b.convRelu("conv4", x, conv3x3(1024));
  x = b.convRelu("conv5", x, conv3x3(1024));
  x = b.maxPool(x, 2, 2);
  x = b.dropout(b.denseRelu("fc6", x, {.outputs = 3072}), 0.5f);
  x = b.dropout(b.denseRelu("fc7", x, {.outputs = 4096}), 0.5f);
  b.softmaxLoss("loss", b.dense("fc8", x, {.outputs = classes}));
  return b.build();
}

}  // namespace

void addOverFeat(NetworkRegistry& registry) {
  registry.add({.name = "overfeat",
                .description = "OverFeat, the fast network",
                .recipe = {.imageSize = 231,
                           .batchSize = 32,
                           .grains = 4,
                           .learningRate = 0.005,
                           .weightDecay = 5e-4,
                           .schedule = "piecewise:20=0.1,40=0.01,60=0.001"},
                .build = overFeat});
}

}  // namespace cohort
