#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

// | 24x24x3 | conv 5x5 64 | pool 3/2 | LRN | conv 5x5 64 | LRN | pool 3/2 | fc 384 | fc 192 | fc 10 |
// The learning rate of .1 was found with these first weights; wider ones make it too large.
Graph cifarCnn(const Shape& input, int classes) {
  const Lrn lrn{.size = 9, .bias = 1.0f, .alpha = 0.001f / 9.0f, .beta = 0.75f};
  const Conv conv{
      .outputs = 64, .kernel = 5, .padding = Padding::same(), .weightInit = Initializer::normal(0.05f)};
  const auto hidden = [](int outputs) {
    return Dense{.outputs = outputs, .weightInit = Initializer::normal(0.04f), .biasInit = 0.1f};
  };

  ModelBuilder b(input, classes);
  ValueId x = b.convRelu("conv1", b.input(), conv);
  x = b.lrn(b.maxPool(x, 3, 2, Padding::same()), lrn);
  Conv second = conv;
  second.biasInit = 0.1f;
  x = b.lrn(b.convRelu("conv2", x, second), lrn);
  x = b.maxPool(x, 3, 2, Padding::same());
  x = b.denseRelu("fc3", x, hidden(384));
  x = b.denseRelu("fc4", x, hidden(192));
  x = b.dense("fc5", x, {.outputs = classes, .weightInit = Initializer::normal(1.0f / 192.0f)});
  b.softmaxLoss("loss", x);
  return b.build();
}

}  // namespace

void addCifarNetworks(NetworkRegistry& registry) {
  registry.add({.name = "cifar-cnn",
                .description = "two 5x5 convolutions with LRN on 24x24 crops",
                .recipe = {.imageSize = 24,
                           .classes = 10,
                           .transforms = "random-crop:24,flip",
                           .normalize = "image",
                           .batchSize = 128,
                           .grains = 16,
                           .optimizer = "sgd",
                           .learningRate = 0.1,
                           .weightDecay = 0.004,
                           .weightDecayFilter = R"(fc[34]\.weight)",
                           .schedule = "steps:136718,0.1",  // 350 epochs of 50,000 images
                           .averageDecay = 0.9999,
                           .trainSteps = 10000},
                .build = cifarCnn});
}

}  // namespace cohort
