#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

Conv conv3x3(int outputs, int groups = 1) {
  return {.outputs = outputs, .kernel = 3, .padding = Padding::all(1), .groups = groups};
}

// fc 4096, fc 4096, fc C, with dropout on the hidden layers.
Graph classify(ModelBuilder& b, ValueId x) {
  x = b.dropout(b.denseRelu("fc6", x, {.outputs = 4096}), 0.5f);
  x = b.dropout(b.denseRelu("fc7", x, {.outputs = 4096}), 0.5f);
  b.softmaxLoss("loss", b.dense("fc8", x, {.outputs = b.classes()}));
  return b.build();
}

// One tower of "one weird trick": no LRN, no groups.
// | 256x256x3 | conv 11x11/4 64 | pool 3/2 | conv 5x5 192 | pool 3/2 | conv 3x3 384 | 256 | 256 | pool 3/2 |
// fc | Images below 227 pixels are padded by 2, which leaves fc6 its 9216 inputs at the usual 224 too.
Graph alexNet(const Shape& input, int classes) {
  const Padding border = input.height < 227 || input.width < 227 ? Padding::all(2) : Padding::valid();
  ModelBuilder b(input, classes);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 64, .kernel = 11, .stride = 4, .padding = border});
  x = b.maxPool(x, 3, 2);
  x = b.convRelu("conv2", x, {.outputs = 192, .kernel = 5, .padding = Padding::same()});
  x = b.maxPool(x, 3, 2);
  x = b.convRelu("conv3", x, conv3x3(384));
  x = b.convRelu("conv4", x, conv3x3(256));
  x = b.convRelu("conv5", x, conv3x3(256));
  x = b.maxPool(x, 3, 2);
  return classify(b, x);
}

// The network of 2012: three convolutions in two groups, LRN after the first two pools.
// | 227x227x3 | conv 11x11/4 96 | pool 3/2, LRN | conv 5x5 256 in 2 groups | pool 3/2, LRN |
// | conv 3x3 384 | 384 in 2 | 256 in 2 | pool 3/2 | fc |
Graph alexNetLrn(const Shape& input, int classes) {
  const Lrn lrn{.size = 5, .bias = 2.0f, .alpha = 1e-4f, .beta = 0.75f};
  ModelBuilder b(input, classes);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 96, .kernel = 11, .stride = 4});
  x = b.lrn(b.maxPool(x, 3, 2), lrn);
  x = b.convRelu("conv2", x, {.outputs = 256, .kernel = 5, .padding = Padding::all(2), .groups = 2});
  x = b.lrn(b.maxPool(x, 3, 2), lrn);
  x = b.convRelu("conv3", x, conv3x3(384));
  x = b.convRelu("conv4", x, conv3x3(384, 2));
  x = b.convRelu("conv5", x, conv3x3(256, 2));
  x = b.maxPool(x, 3, 2);
  return classify(b, x);
}

}  // namespace

void addAlexNets(NetworkRegistry& registry) {
  Recipe recipe{.imageSize = 256,
                .batchSize = 128,
                .grains = 4,
                .learningRate = 0.01,
                .weightDecay = 5e-4,
                .schedule = "piecewise:20=0.1,40=0.01,60=0.001"};
  registry.add({.name = "alexnet",
                .description = "AlexNet in one tower, without LRN and groups",
                .recipe = recipe,
                .build = alexNet});
  recipe.imageSize = 227;
  recipe.paramRules = {R"(.*\.bias:lr=2,decay=0)"};
  registry.add({.name = "alexnet-lrn",
                .description = "AlexNet of 2012, with LRN and two groups",
                .recipe = recipe,
                .build = alexNetLrn});
}

}  // namespace cohort
