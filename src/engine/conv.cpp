// Convolution by oneDNN's direct kernels. Activations stay in the kernel's blocked layout; weights come from
// the prepared copy; the weight gradient is computed blocked and brought into plain layout in the sink's own
// memory.
#include <cstring>
#include <string>
#include <utility>

#include "engine/compiler.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// The geometry that all three passes share.
struct Geometry {
  Dims source, destination, weights, bias, strides, paddingBefore, paddingAfter;
  Desc plainWeights;
};

Geometry geometryOf(const Compiler& compiler, const Node& node, const Conv& op) {
  const Shape& in = compiler.graph().shapeOf(node.inputs[0]);
  const Shape& out = compiler.graph().shapeOf(node.output);
  const Padding padding = resolvePadding(op.padding, op.kernel, op.stride, in);
  Geometry g;
  g.source = {compiler.batch(node.inputs[0]), in.channels, in.height, in.width};
  g.destination = {compiler.batch(node.output), out.channels, out.height, out.width};
  g.bias = {out.channels};
  g.strides = {op.stride.height, op.stride.width};
  g.paddingBefore = {padding.top, padding.left};
  g.paddingAfter = {padding.bottom, padding.right};
  if (op.groups == 1) {
    g.weights = {out.channels, in.channels, op.kernel.height, op.kernel.width};
    g.plainWeights = Desc(g.weights, kF32, Tag::oihw);
  } else {
    g.weights = {op.groups, out.channels / op.groups, in.channels / op.groups, op.kernel.height,
                 op.kernel.width};
    g.plainWeights = Desc(g.weights, kF32, Tag::goihw);
  }
  return g;
}

Desc any(const Dims& dims) {
  return {dims, kF32, Tag::any};
}

dnnl::convolution_forward::primitive_desc decideForward(const Geometry& g, bool bias, bool relu,
                                                        bool training) {
  dnnl::primitive_attr attributes = scratchpadByCaller();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const Desc biasDesc = bias ? Desc(g.bias, kF32, Tag::x) : Desc();
  return {{kind, kAlgorithm, any(g.source), any(g.weights), biasDesc, any(g.destination), g.strides,
           g.paddingBefore, g.paddingAfter},
          attributes,
          cpuEngine()};
}

void emitBackwardData(Compiler& compiler, const Node& node, const Geometry& g,
                      const dnnl::convolution_forward::primitive_desc& forward, ParameterIndex weight) {
  const dnnl::convolution_backward_data::primitive_desc decided(
      {kAlgorithm, any(g.source), any(g.weights), any(g.destination), g.strides, g.paddingBefore,
       g.paddingAfter},
      scratchpadByCaller(), cpuEngine(), forward);
  const Tensor weights = compiler.prepare(weight, g.plainWeights, decided.weights_desc());
  const Tensor outputGradient = compiler.gradient(node, node.output, decided.diff_dst_desc());
  const Tensor inputGradient = compiler.tensor(decided.diff_src_desc());
  compiler.emitPrimitive(
      node, decided.impl_info_str(), dnnl::convolution_backward_data(decided), decided.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, outputGradient}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, inputGradient}});
  compiler.contribute(node, node.inputs[0], inputGradient);
}

// Copies a small finished gradient into its piece.
void deliver(GradientSink& sink, const Parameter& parameter, const float* values) {
  const std::span<float> place = sink.open(parameter.firstPiece);
  std::memcpy(place.data(), values, place.size_bytes());
  sink.close(parameter.firstPiece);
}

void emitBackwardWeights(Compiler& compiler, const Node& node, const Geometry& g,
                         const dnnl::convolution_forward::primitive_desc& forward, ParameterIndex weight,
                         ParameterIndex bias) {
  const bool hasBias = bias >= 0;
  const Desc biasDesc = hasBias ? Desc(g.bias, kF32, Tag::x) : Desc();
  const dnnl::convolution_backward_weights::primitive_desc decided(
      {kAlgorithm, any(g.source), any(g.weights), biasDesc, any(g.destination), g.strides, g.paddingBefore,
       g.paddingAfter},
      scratchpadByCaller(), cpuEngine(), forward);
  const Tensor source = compiler.value(node, node.inputs[0], decided.src_desc());
  const Tensor outputGradient = compiler.gradient(node, node.output, decided.diff_dst_desc());
  const Tensor weightGradient = compiler.tensor(decided.diff_weights_desc());
  const Tensor scratch = compiler.tensor(decided.scratchpad_desc());
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source},
                                  {DNNL_ARG_DIFF_DST, outputGradient},
                                  {DNNL_ARG_DIFF_WEIGHTS, weightGradient},
                                  {DNNL_ARG_SCRATCHPAD, scratch}};
  std::vector<BufferRef> uses{source.buffer, outputGradient.buffer, weightGradient.buffer, scratch.buffer};
  Tensor biasGradient;
  if (hasBias) {
    biasGradient = compiler.tensor(biasDesc);
    arguments.push_back({DNNL_ARG_DIFF_BIAS, biasGradient});
    uses.push_back(biasGradient.buffer);
  }
  const dnnl::reorder::primitive_desc toPlain(cpuEngine(), decided.diff_weights_desc(), cpuEngine(),
                                              g.plainWeights, scratchpadByCaller());
  const Parameter weightParameter = compiler.layout().at(weight);
  const Parameter biasParameter = hasBias ? compiler.layout().at(bias) : Parameter{};
  const dnnl::primitive kernel = dnnl::convolution_backward_weights(decided);
  const dnnl::primitive reorder = dnnl::reorder(toPlain);
  compiler.emit({node.id, decided.impl_info_str(), std::move(uses),
                 [=, plain = g.plainWeights](Binder& binder) -> Action {
                   // oneDNN pads no plain layout, so pointing this memory elsewhere touches nothing.
                   const dnnl::memory place(plain, cpuEngine(), DNNL_MEMORY_NONE);
                   Action compute = binder.call(kernel, arguments);
                   Action bringOut = binder.callWith(
                       reorder, {{DNNL_ARG_FROM, binder.memory(weightGradient)}, {DNNL_ARG_TO, place}});
                   const float* biasValues = hasBias ? binder.at(biasGradient.buffer) : nullptr;
                   return [=, target = place](RunState& state) {
                     compute(state);
                     target.set_data_handle(state.sink->open(weightParameter.firstPiece).data());
                     bringOut(state);
                     state.sink->close(weightParameter.firstPiece);
                     if (hasBias) deliver(*state.sink, biasParameter, biasValues);
                   };
                 }});
}

}  // namespace

void compileConv(Compiler& compiler, const Node& node, const Conv& op) {
  const Geometry g = geometryOf(compiler, node, op);
  const ParameterIndex weight = compiler.parameter(node, ".weight");
  const ParameterIndex bias = op.bias ? compiler.parameter(node, ".bias") : -1;
  const auto decided = decideForward(g, op.bias, compiler.fusesRelu(node), compiler.training());

  const Tensor output = compiler.tensor(decided.dst_desc());
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, compiler.value(node, node.inputs[0], decided.src_desc())},
      {DNNL_ARG_WEIGHTS, compiler.prepare(weight, g.plainWeights, decided.weights_desc())},
      {DNNL_ARG_DST, output}};
  if (op.bias) {
    arguments.push_back({DNNL_ARG_BIAS, {Desc(g.bias, kF32, Tag::x), {BufferRef::Kind::Parameter, bias}}});
  }
  compiler.emitPrimitive(node, decided.impl_info_str(), dnnl::convolution_forward(decided),
                         decided.scratchpad_desc(), std::move(arguments));
  compiler.define(node.output, output);

  compiler.onBackward([&compiler, &node, g, decided, weight, bias] {
    // Data before weights: closing the weights' pieces allows the sink to change the weights themselves.
    if (compiler.needsGradient(node.inputs[0])) emitBackwardData(compiler, node, g, decided, weight);
    emitBackwardWeights(compiler, node, g, decided, weight, bias);
  });
}

}  // namespace cohort
