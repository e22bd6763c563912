// A network of one's own, with the whole command line of cohort: train, resume, eval, describe.
//
//   custom_network describe --network small-resnet
//   custom_network train --network small-resnet
//
// The second one trains on Fashion-MNIST for half a minute on two cores and should reach a test accuracy of 0.89.
// docs/custom-models.md goes through this page step by step.
#include <string>

#include <cohort.h>

namespace {

using namespace cohort;

// | conv 3x3, batch norm |
ValueId convBatchNorm(ModelBuilder& b, const std::string& name, ValueId x, int outputs) {
  x = b.conv(name, x, {.outputs = outputs, .kernel = 3, .padding = Padding::same(), .bias = false});
  // A short run: statistics that follow faster than the usual 0.997.
  return b.batchNorm(name + ".bn", x, {.decay = 0.98f});
}

// | conv 3x3, batch norm, ReLU | conv 3x3, batch norm | + the block's input | ReLU |
ValueId residualBlock(ModelBuilder& b, const std::string& name, ValueId input) {
  const int channels = static_cast<int>(b.shape(input).channels);
  ValueId x = b.relu(convBatchNorm(b, name + ".conv1", input, channels));
  x = convBatchNorm(b, name + ".conv2", x, channels);
  return b.relu(b.add({x, input}));
}

// | conv 3x3 16 | pool 2/2 | block | conv 3x3 32 | pool 2/2 | block | global average pool | fc |
Graph smallResNet(const Shape& input, int classes) {
  ModelBuilder b(input, classes);
  ValueId x = b.relu(convBatchNorm(b, "conv1", b.input(), 16));
  x = residualBlock(b, "block1", b.maxPool(x, 2, 2));
  x = b.relu(convBatchNorm(b, "conv2", x, 32));
  x = residualBlock(b, "block2", b.maxPool(x, 2, 2));
  b.softmaxLoss("loss", b.dense("fc", b.globalAveragePool(x), {.outputs = classes}));
  return b.build();
}

}  // namespace

int main(int argc, char** argv) {
  NetworkRegistry networks = builtinNetworks();
  networks.add({.name = "small-resnet",
                .description = "two residual blocks, 16 and 32 channels",
                .recipe = {.dataset = "fashion-mnist",
                           .channels = 1,
                           .imageSize = 28,
                           .classes = 10,
                           .batchSize = 96,
                           .grains = 8,
                           .optimizer = "nesterov",
                           .learningRate = 0.1,
                           .momentum = 0.9,
                           .schedule = "cosine:900",
                           .trainSteps = 900},
                .build = smallResNet});
  return run(argc, argv, networks);
}
