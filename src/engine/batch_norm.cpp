// Batch normalisation by oneDNN over one grain, with the following ReLU where there is one. The grain's mean
// and unbiased variance are delivered like gradients: the running statistics' owner averages them over the
// grains.
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/compiler.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Flags = dnnl::normalization_flags;

// A node's four parameters.
struct Parameters {
  ParameterIndex weight, bias, mean, variance;
};

void deliver(GradientSink& sink, const Parameter& parameter, const float* values, float scale) {
  const std::span<float> place = sink.open(parameter.firstPiece);
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = values[i] * scale;
  sink.close(parameter.firstPiece);
}

Tensor parameterTensor(const Desc& perChannel, ParameterIndex index) {
  return {perChannel, {BufferRef::Kind::Parameter, index}};
}

}  // namespace

void compileBatchNorm(Compiler& compiler, const Node& node, const BatchNorm& op) {
  const Shape& shape = compiler.graph().shapeOf(node.inputs[0]);
  const Tensor input = compiler.value(node.inputs[0]);
  const Desc perChannel({shape.channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x);
  const Parameters p{compiler.parameter(node, ".weight"), compiler.parameter(node, ".bias"),
                     compiler.parameter(node, ".running_mean"), compiler.parameter(node, ".running_var")};
  const bool training = compiler.training();
  // Weight and bias lie side by side in the arena: one [2, channels] tensor for oneDNN, without a copy.
  COHORT_CHECK(compiler.layout().at(p.bias).offset ==
                   compiler.layout().at(p.weight).offset + static_cast<std::size_t>(shape.channels),
               "a batch norm's bias follows its weight");
  const Tensor scaleShift{{{2, shape.channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nc},
                          {BufferRef::Kind::Parameter, p.weight}};
  Flags flags = Flags::use_scale_shift;
  if (compiler.fusesRelu(node)) flags |= Flags::fuse_norm_relu;
  if (!training) flags |= Flags::use_global_stats;

  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::batch_normalization_forward::primitive_desc decided({kind, input.desc, op.epsilon, flags},
                                                                  scratchpadByCaller(), cpuEngine());
  const Tensor output = compiler.tensor(decided.dst_desc());
  const Tensor mean = training ? compiler.tensor(perChannel) : parameterTensor(perChannel, p.mean);
  const Tensor variance = training ? compiler.tensor(perChannel) : parameterTensor(perChannel, p.variance);
  const bool hasWorkspace = decided.workspace_desc().get_size() > 0;  // which outputs the ReLU kept
  const Tensor workspace = hasWorkspace ? compiler.tensor(decided.workspace_desc()) : Tensor{};
  std::vector<Argument> arguments{{DNNL_ARG_SRC, input},
                                  {DNNL_ARG_DST, output},
                                  {DNNL_ARG_MEAN, mean},
                                  {DNNL_ARG_VARIANCE, variance},
                                  {DNNL_ARG_SCALE_SHIFT, scaleShift}};
  if (hasWorkspace) arguments.push_back({DNNL_ARG_WORKSPACE, workspace});
  compiler.emitPrimitive(node, decided.impl_info_str(), dnnl::batch_normalization_forward(decided),
                         decided.scratchpad_desc(), std::move(arguments));
  compiler.define(node.output, output);

  compiler.onBackward([=, &compiler, &node] {
    const dnnl::batch_normalization_backward::primitive_desc back(
        {dnnl::prop_kind::backward, input.desc, input.desc, op.epsilon, flags}, scratchpadByCaller(),
        cpuEngine(), decided);
    const Tensor inputGradient = compiler.tensor(back.diff_src_desc());
    const Tensor scaleShiftGradient = compiler.tensor(scaleShift.desc);
    std::vector<Argument> backArguments{
        {DNNL_ARG_SRC, input},
        {DNNL_ARG_MEAN, mean},
        {DNNL_ARG_VARIANCE, variance},
        {DNNL_ARG_DIFF_DST, compiler.gradient(node, node.output, back.diff_dst_desc())},
        {DNNL_ARG_SCALE_SHIFT, scaleShift},
        {DNNL_ARG_DIFF_SRC, inputGradient},
        {DNNL_ARG_DIFF_SCALE_SHIFT, scaleShiftGradient}};
    if (hasWorkspace) backArguments.push_back({DNNL_ARG_WORKSPACE, workspace});
    compiler.emitPrimitive(node, back.impl_info_str(), dnnl::batch_normalization_backward(back),
                           back.scratchpad_desc(), std::move(backArguments));

    const auto samples = static_cast<float>(compiler.batch() * shape.pixels());
    const float unbiased = samples > 1 ? samples / (samples - 1) : 1.0f;
    const ParameterLayout& layout = compiler.layout();
    const Parameter weightParameter = layout.at(p.weight);
    const Parameter biasParameter = layout.at(p.bias);
    const Parameter meanParameter = layout.at(p.mean);
    const Parameter varianceParameter = layout.at(p.variance);
    compiler.emit({node.id,
                   "",
                   {scaleShiftGradient.buffer, mean.buffer, variance.buffer},
                   [=](Binder& binder) -> Action {
                     const float* scale = binder.at(scaleShiftGradient.buffer);
                     const float* shift = scale + meanParameter.size;
                     const float* grainMean = binder.at(mean.buffer);
                     const float* grainVariance = binder.at(variance.buffer);
                     return [=](RunState& state) {
                       deliver(*state.sink, weightParameter, scale, 1.0f);
                       deliver(*state.sink, biasParameter, shift, 1.0f);
                       deliver(*state.sink, meanParameter, grainMean, 1.0f);
                       deliver(*state.sink, varianceParameter, grainVariance, unbiased);
                     };
                   }});
    if (compiler.needsGradient(node.inputs[0])) compiler.contribute(node, node.inputs[0], inputGradient);
  });
}

}  // namespace cohort
