#include <array>

#include <fmt/format.h>

#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

// Convolutions before each of the five pools; their outputs are 64, 128, 256, 512, 512.
//   vgg11   1  1  2  2  2
//   vgg16   2  2  3  3  3
//   vgg19   2  2  4  4  4
using Stages = std::array<int, 5>;

// | 224x224x3 | five stages of conv 3x3, each ended by pool 2/2 | fc 4096, dropout | fc 4096, dropout | fc C
// |
Graph vgg(const Stages& stages, const Shape& input, int classes) {
  constexpr std::array<int, 5> kOutputs{64, 128, 256, 512, 512};
  ModelBuilder b(input, classes);
  ValueId x = b.input();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int layer = 1; layer <= stages[stage]; ++layer) {
      x = b.convRelu(fmt::format("conv{}_{}", stage + 1, layer), x,
                     {.outputs = kOutputs[stage], .kernel = 3, .padding = Padding::all(1)});
    }
    x = b.maxPool(x, 2, 2);
  }
  x = b.dropout(b.denseRelu("fc6", x, {.outputs = 4096}), 0.5f);
  x = b.dropout(b.denseRelu("fc7", x, {.outputs = 4096}), 0.5f);
  b.softmaxLoss("loss", b.dense("fc8", x, {.outputs = classes}));
  return b.build();
}

void addVgg(NetworkRegistry& registry, int depth, const Stages& stages) {
  registry.add({.name = fmt::format("vgg{}", depth),
                .description = fmt::format("VGG with {} layers", depth),
                .recipe = {.batchSize = 32,
                           .grains = 4,
                           .learningRate = 0.005,
                           .weightDecay = 5e-4,
                           .schedule = "piecewise:20=0.1,40=0.01,60=0.001",
                           .paramRules = {R"(.*\.bias:lr=2,decay=0)"}},
                .build = [stages](const Shape& input, int classes) { return vgg(stages, input, classes); }});
}

}  // namespace

void addVggNetworks(NetworkRegistry& registry) {
  addVgg(registry, 11, {1, 1, 2, 2, 2});
  addVgg(registry, 16, {2, 2, 3, 3, 3});
  addVgg(registry, 19, {2, 2, 4, 4, 4});
}

}  // namespace cohort
