#include "graph/model_builder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

// The shape of a window operator's output; a window that does not fit gives an extent below 1.
Shape windowOutput(const Shape& in, std::int64_t channels, Extent kernel, Extent stride,
                   const Padding& padding, bool roundUp) {
  const auto extent = [&](std::int64_t size, int before, int after, int k, int s) {
    const std::int64_t room = size + before + after - k;
    if (room < 0) return std::int64_t{0};
    std::int64_t windows = room / s + 1;
    // A partly outside window must still begin inside the image or the leading padding.
    if (roundUp && room % s != 0 && windows * s < size + before) ++windows;
    return windows;
  };
  const Padding p = resolvePadding(padding, kernel, stride, in);
  return {channels, extent(in.height, p.top, p.bottom, kernel.height, stride.height),
          extent(in.width, p.left, p.right, kernel.width, stride.width)};
}

void checkPositive(const std::string& name, Extent extent, const char* what) {
  if (extent.height < 1 || extent.width < 1) {
    throw UsageError(fmt::format("layer {}: its {} must be at least 1", name, what));
  }
}

// Each operator's output shape from its inputs' shapes.
struct ShapeRule {
  const std::string& name;
  const std::vector<Shape>& in;

  Shape operator()(const Conv& op) const {
    checkPositive(name, op.kernel, "kernel");
    checkPositive(name, op.stride, "stride");
    if (op.outputs < 1) throw UsageError(fmt::format("layer {}: it needs at least 1 output", name));
    if (op.groups < 1 || in[0].channels % op.groups != 0 || op.outputs % op.groups != 0) {
      throw UsageError(fmt::format("layer {}: {} groups do not divide {} input and {} output channels", name,
                                   op.groups, in[0].channels, op.outputs));
    }
    return windowOutput(in[0], op.outputs, op.kernel, op.stride, op.padding, false);
  }
  Shape operator()(const Dense& op) const {
    if (op.outputs < 1) throw UsageError(fmt::format("layer {}: it needs at least 1 output", name));
    return {op.outputs, 1, 1};
  }
  Shape operator()(const Pool& op) const {
    if (op.global) return {in[0].channels, 1, 1};
    checkPositive(name, op.kernel, "kernel");
    checkPositive(name, op.stride, "stride");
    return windowOutput(in[0], in[0].channels, op.kernel, op.stride, op.padding, op.roundUp);
  }
  Shape operator()(const Relu&) const { return in[0]; }
  Shape operator()(const Lrn& op) const {
    if (op.size < 1 || op.size % 2 == 0)
      throw UsageError(fmt::format("layer {}: an LRN size must be odd", name));
    return in[0];
  }
  Shape operator()(const BatchNorm&) const { return in[0]; }
  Shape operator()(const Dropout& op) const {
    if (!(op.rate >= 0.0f && op.rate < 1.0f)) {
      throw UsageError(fmt::format("layer {}: a dropout rate must lie in [0, 1), not {}", name, op.rate));
    }
    return in[0];
  }
  Shape operator()(const Concat&) const {
    Shape out = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (in[i].height != out.height || in[i].width != out.width) {
        throw UsageError(fmt::format("layer {}: its inputs differ in height or width", name));
      }
      out.channels += in[i].channels;
    }
    return out;
  }
  Shape operator()(const Add&) const {
    for (const Shape& shape : in) {
      if (shape.height != in[0].height || shape.width != in[0].width || shape.channels > in[0].channels) {
        throw UsageError(fmt::format(
            "layer {}: its inputs must have the first one's height and width, and not more channels", name));
      }
    }
    return in[0];
  }
  Shape operator()(const Flatten&) const { return {in[0].count(), 1, 1}; }
  Shape operator()(const Redistribute&) const {
    COHORT_CHECK(false, "a collective is a part of a divided network, which partition() makes");
  }
  Shape operator()(const SoftmaxLoss&) const { return {1, 1, 1}; }
};

// A layer whose output no loss depends on would have parameters that nothing ever moves.
void refuseDeadLayers(const Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!std::holds_alternative<SoftmaxLoss>(node->op) && !wanted[static_cast<std::size_t>(node->output)]) {
      throw UsageError(fmt::format("layer {} leads to no loss; use its output, or leave it out", node->name));
    }
    for (const ValueId input : node->inputs) wanted[static_cast<std::size_t>(input)] = true;
  }
}

}  // namespace

ModelBuilder::ModelBuilder(Shape input, int classes) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    throw UsageError(fmt::format("an image of {} channels, {}x{} pixels is empty", input.channels,
                                 input.height, input.width));
  }
  if (classes < 1) throw UsageError(fmt::format("a network needs at least 1 class, not {}", classes));
  graph_.input = input;
  graph_.classes = classes;
  graph_.values.push_back(input);
}

std::string ModelBuilder::freeName(const char* kind) {
  return fmt::format("{}{}", kind, graph_.nodes.size() + 1);
}

ValueId ModelBuilder::append(std::string name, Op op, std::vector<ValueId> inputs) {
  COHORT_CHECK(!inputs.empty(), "a node needs an input");
  std::vector<Shape> shapes;
  for (const ValueId input : inputs) {
    COHORT_CHECK(input >= 0 && input < static_cast<int>(graph_.values.size()), "no such value");
    shapes.push_back(shape(input));
  }
  if (std::ranges::any_of(graph_.nodes, [&](const Node& node) { return node.name == name; })) {
    throw UsageError(fmt::format("two layers are called {}", name));
  }
  const Shape out = std::visit(ShapeRule{name, shapes}, op);
  if (out.height < 1 || out.width < 1) {
    throw UsageError(fmt::format("layer {} ({}) does not fit its {}x{} input; use larger images", name,
                                 describe(op), shapes[0].height, shapes[0].width));
  }
  const auto id = static_cast<NodeId>(graph_.nodes.size());
  graph_.nodes.push_back({id, std::move(name), std::move(op), std::move(inputs), id + 1});
  graph_.values.push_back(out);
  return id + 1;
}

ValueId ModelBuilder::conv(std::string name, ValueId x, Conv op) {
  return append(std::move(name), op, {x});
}

ValueId ModelBuilder::dense(std::string name, ValueId x, Dense op) {
  const Shape& in = shape(x);
  return append(std::move(name), op, {in.pixels() == 1 ? x : flatten(x)});
}

ValueId ModelBuilder::pool(ValueId x, Pool op) {
  return append(freeName("pool"), op, {x});
}

ValueId ModelBuilder::maxPool(ValueId x, Extent kernel, Extent stride, Padding padding) {
  return pool(x, {.kind = Pool::Kind::Max, .kernel = kernel, .stride = stride, .padding = padding});
}

ValueId ModelBuilder::averagePool(ValueId x, Extent kernel, Extent stride, Padding padding) {
  return pool(x, {.kind = Pool::Kind::Average, .kernel = kernel, .stride = stride, .padding = padding});
}

ValueId ModelBuilder::globalAveragePool(ValueId x) {
  return pool(x, {.kind = Pool::Kind::Average, .global = true});
}

ValueId ModelBuilder::relu(ValueId x) {
  return append(freeName("relu"), Relu{}, {x});
}

ValueId ModelBuilder::lrn(ValueId x, Lrn op) {
  return append(freeName("lrn"), op, {x});
}

ValueId ModelBuilder::batchNorm(std::string name, ValueId x, BatchNorm op) {
  return append(std::move(name), op, {x});
}

ValueId ModelBuilder::dropout(ValueId x, float rate) {
  return append(freeName("dropout"), Dropout{rate}, {x});
}

ValueId ModelBuilder::concat(std::vector<ValueId> xs) {
  return append(freeName("concat"), Concat{}, std::move(xs));
}

ValueId ModelBuilder::add(std::vector<ValueId> xs) {
  return append(freeName("add"), Add{}, std::move(xs));
}

ValueId ModelBuilder::flatten(ValueId x) {
  return append(freeName("flatten"), Flatten{}, {x});
}

void ModelBuilder::softmaxLoss(std::string name, ValueId logits, SoftmaxLoss op) {
  const Shape& in = shape(logits);
  if (in.pixels() != 1 || in.channels != graph_.classes) {
    throw UsageError(fmt::format("loss {}: its logits have shape {}x{}x{}, but there are {} classes", name,
                                 in.channels, in.height, in.width, graph_.classes));
  }
  append(std::move(name), op, {logits});
}

Graph ModelBuilder::build() {
  const bool hasLoss = std::ranges::any_of(
      graph_.nodes, [](const Node& node) { return std::holds_alternative<SoftmaxLoss>(node.op); });
  if (!hasLoss) throw UsageError("the network has no loss; end it with softmaxLoss");
  refuseDeadLayers(graph_);
  return std::exchange(graph_, {});
}

}  // namespace cohort
