// Writes a Graph as a page that reads like the network's table:
//
//   ModelBuilder b({.channels = 1, .height = 28, .width = 28}, 10);
//   auto x = b.conv("conv1", b.input(), {.outputs = 32, .kernel = 5, .padding = Padding::same()});
//   x = b.relu(x);
//   …
//   b.softmaxLoss("loss", b.dense("logits", x, {.outputs = b.classes()}));
//   return b.build();
//
// Shapes are checked as nodes are added; a network that cannot be built (an image too small for its layers)
// is a UsageError that names the layer.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace cohort {

class ModelBuilder {
 public:
  ModelBuilder(Shape input, int classes);

  ValueId input() const { return 0; }
  int classes() const { return graph_.classes; }
  const Shape& shape(ValueId value) const { return graph_.shapeOf(value); }

  ValueId conv(std::string name, ValueId x, Conv op);
  ValueId dense(std::string name, ValueId x, Dense op);  // flattens x where it is not flat
  ValueId pool(ValueId x, Pool op);
  ValueId maxPool(ValueId x, Extent kernel, Extent stride, Padding padding = Padding::valid());
  ValueId averagePool(ValueId x, Extent kernel, Extent stride, Padding padding = Padding::valid());
  ValueId globalAveragePool(ValueId x);
  ValueId relu(ValueId x);
  ValueId lrn(ValueId x, Lrn op);
  ValueId batchNorm(std::string name, ValueId x, BatchNorm op = {});
  ValueId dropout(ValueId x, float rate);
  ValueId concat(std::vector<ValueId> xs);
  ValueId add(std::vector<ValueId> xs);
  ValueId flatten(ValueId x);
  void softmaxLoss(std::string name, ValueId logits, SoftmaxLoss op = {});

  // Conv or dense followed by ReLU.
  ValueId convRelu(std::string name, ValueId x, Conv op) { return relu(conv(std::move(name), x, op)); }
  ValueId denseRelu(std::string name, ValueId x, Dense op) { return relu(dense(std::move(name), x, op)); }

  // The finished graph; needs at least one loss. The builder is empty afterwards.
  Graph build();

 private:
  ValueId append(std::string name, Op op, std::vector<ValueId> inputs);
  std::string freeName(const char* kind);

  Graph graph_;
};

}  // namespace cohort
