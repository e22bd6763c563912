#include <cmath>

#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

// | 28x28x1 | fc 100 | fc 10 |, the loss summed over the batch.
Graph mnistFc(const Shape& input, int classes) {
  ModelBuilder b(input, classes);
  const ValueId x = b.denseRelu("fc1", b.input(), {.outputs = 100});
  b.softmaxLoss("loss", b.dense("fc2", x, {.outputs = classes}), {.reduction = SoftmaxLoss::Reduction::Sum});
  return b.build();
}

// A short run has no time to unlearn loud first answers: a sixth of the usual variance.
Initializer smallFirstWeights(const Shape& inputs) {
  return Initializer::uniform(static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs.count()))));
}

// | 28x28x1 | conv 5x5 32 | pool 2/2 | conv 5x5 64 | pool 2/2 | fc 1024, dropout | fc 10 |
Graph mnistCnn(const Shape& input, int classes) {
  ModelBuilder b(input, classes);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 32, .kernel = 5, .padding = Padding::same()});
  x = b.maxPool(x, 2, 2);
  x = b.convRelu("conv2", x, {.outputs = 64, .kernel = 5, .padding = Padding::same()});
  x = b.maxPool(x, 2, 2);
  x = b.dropout(b.denseRelu("fc1", x, {.outputs = 1024, .weightInit = smallFirstWeights(b.shape(x))}), 0.5f);
  b.softmaxLoss("loss", b.dense("fc2", x, {.outputs = classes, .weightInit = smallFirstWeights(b.shape(x))}));
  return b.build();
}

}  // namespace

void addMnistNetworks(NetworkRegistry& registry) {
  const Recipe mnist{.dataset = "fashion-mnist",
                     .channels = 1,
                     .imageSize = 28,
                     .classes = 10,
                     .batchSize = 100,
                     .grains = 4};
  Recipe fc = mnist;
  fc.optimizer = "adagrad";
  fc.learningRate = 0.02;
  fc.trainSteps = 20000;
  registry.add({.name = "mnist-fc",
                .description = "784-100-10, one hidden layer; the loss is summed",
                .recipe = fc,
                .build = mnistFc});

  Recipe cnn = mnist;
  cnn.optimizer = "adam";
  cnn.learningRate = 1e-3;
  cnn.trainSteps = 900;
  registry.add({.name = "mnist-cnn",
                .description = "two 5x5 convolutions and a hidden layer of 1024",
                .recipe = cnn,
                .build = mnistCnn});
}

}  // namespace cohort
