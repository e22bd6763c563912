#include "graph/model_builder.h"
#include "models/families.h"

namespace cohort {
namespace {

// The columns of the table in "Going deeper with convolutions": outputs of each branch of an inception.
struct Inception {
  const char* name;
  int conv1x1;
  int reduce3x3, conv3x3;
  int reduce5x5, conv5x5;
  int poolProjection;
};

ValueId inception(ModelBuilder& b, ValueId x, const Inception& row) {
  const std::string name = std::string("inception_") + row.name;
  const ValueId a = b.convRelu(name + "_1x1", x, {.outputs = row.conv1x1});
  ValueId c = b.convRelu(name + "_3x3_reduce", x, {.outputs = row.reduce3x3});
  c = b.convRelu(name + "_3x3", c, {.outputs = row.conv3x3, .kernel = 3, .padding = Padding::all(1)});
  ValueId d = b.convRelu(name + "_5x5_reduce", x, {.outputs = row.reduce5x5});
  d = b.convRelu(name + "_5x5", d, {.outputs = row.conv5x5, .kernel = 5, .padding = Padding::all(2)});
  const ValueId e =
      b.convRelu(name + "_pool_proj", b.maxPool(x, 3, 1, Padding::all(1)), {.outputs = row.poolProjection});
  return b.concat({a, c, d, e});
}

// Pools count a last window that hangs over the edge: 112, 56, 28, 14, 7.
ValueId pool3(ModelBuilder& b, ValueId x) {
  return b.pool(x, {.kind = Pool::Kind::Max, .kernel = 3, .stride = 2, .roundUp = true});
}

// A classifier in mid-network that helps gradients reach the first layers; training only.
void auxiliaryHead(ModelBuilder& b, ValueId x, const std::string& name) {
  x = b.averagePool(x, 5, 3);
  x = b.convRelu(name + "_conv", x, {.outputs = 128});
  x = b.dropout(b.denseRelu(name + "_fc1", x, {.outputs = 1024}), 0.7f);
  b.softmaxLoss(name + "_loss", b.dense(name + "_fc2", x, {.outputs = b.classes()}),
                {.weight = 0.3f, .evaluated = false});
}

Graph googLeNet(const Shape& input, int classes) {
  const Lrn lrn{.size = 5, .bias = 2.0f, .alpha = 1e-4f, .beta = 0.75f};
  ModelBuilder b(input, classes);
  ValueId x =
      b.convRelu("conv1", b.input(), {.outputs = 64, .kernel = 7, .stride = 2, .padding = Padding::all(3)});
  x = b.lrn(pool3(b, x), lrn);
  x = b.convRelu("conv2_reduce", x, {.outputs = 64});
  x = b.convRelu("conv2", x, {.outputs = 192, .kernel = 3, .padding = Padding::all(1)});
  x = pool3(b, b.lrn(x, lrn));
  // clang-format off
  //                            1x1 3x3: r    o  5x5: r    o  pool
  x = inception(b, x, {"3a",     64,      96, 128,      16,  32,   32});
  x = inception(b, x, {"3b",    128,     128, 192,      32,  96,   64});
  x = pool3(b, x);
  x = inception(b, x, {"4a",    192,      96, 208,      16,  48,   64});
  auxiliaryHead(b, x, "aux1");
  x = inception(b, x, {"4b",    160,     112, 224,      24,  64,   64});
  x = inception(b, x, {"4c",    128,     128, 256,      24,  64,   64});
  x = inception(b, x, {"4d",    112,     144, 288,      32,  64,   64});
  auxiliaryHead(b, x, "aux2");
  x = inception(b, x, {"4e",    256,     160, 320,      32, 128,  128});
  x = pool3(b, x);
  x = inception(b, x, {"5a",    256,     160, 320,      32, 128,  128});
  x = inception(b, x, {"5b",    384,     192, 384,      48, 128,  128});
  // clang-format on
  x = b.dropout(b.globalAveragePool(x), 0.4f);
  b.softmaxLoss("loss", b.dense("fc", x, {.outputs = classes}));
  return b.build();
}

}  // namespace

void addGoogLeNet(NetworkRegistry& registry) {
  registry.add({.name = "googlenet",
                .description = "GoogLeNet with both auxiliary classifiers",
                .recipe = {.batchSize = 32,
                           .grains = 16,
                           .learningRate = 0.007,
                           .weightDecay = 2e-4,
                           .schedule = "piecewise:20=0.1,40=0.01,60=0.001",
                           .paramRules = {R"(.*\.bias:lr=2,decay=0)"}},
                .build = googLeNet});
}

}  // namespace cohort
