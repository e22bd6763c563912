// Batch normalisation by oneDNN over one grain, with the following ReLU where there is one. The grain's mean
// and unbiased variance are delivered like gradients: the running statistics' owner averages them over the
// grains. Of a round that workers compute together, every grain is normalised by itself.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/compiler.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Flags = dnnl::normalization_flags;

// A node's four parameters.
struct Parameters {
  Parameter weight, bias, mean, variance;
  ParameterIndex weightIndex, biasIndex, meanIndex, varianceIndex;
};

Parameters parametersOf(const Compiler& compiler, const Node& node) {
  const auto find = [&](const char* suffix) { return compiler.parameter(node, suffix); };
  const auto at = [&](const char* suffix) { return compiler.layout().at(find(suffix)); };
  return {at(".weight"),   at(".bias"),   at(".running_mean"),   at(".running_var"),
          find(".weight"), find(".bias"), find(".running_mean"), find(".running_var")};
}

Tensor parameterTensor(const Desc& desc, ParameterIndex index) {
  return {desc, {BufferRef::Kind::Parameter, index}};
}

// What the kernels of one grain share.
struct Grain {
  Tensor input, output, mean, variance, workspace;
  // The gradients of weight and bias; backward only.
  Tensor weightGradient{}, biasGradient{};
};

class BatchNormCompiler {
 public:
  BatchNormCompiler(Compiler& compiler, const Node& node, const BatchNorm& op)
      : compiler_(compiler),
        node_(node),
        op_(op),
        channels_(compiler.graph().shapeOf(node.inputs[0]).channels),
        perChannel_({channels_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x),
        parameters_(parametersOf(compiler, node)),
        // Side by side in the arena they are one [2, channels] tensor for oneDNN; parts of them are not.
        isJoint_(parameters_.bias.offset == parameters_.weight.offset + static_cast<std::size_t>(channels_)) {
    flags_ = isJoint_ ? Flags::use_scale_shift : Flags::use_scale | Flags::use_shift;
    if (compiler.fusesRelu(node)) flags_ |= Flags::fuse_norm_relu;
    if (!compiler.training()) flags_ |= Flags::use_global_stats;
  }

  void emitForward();
  void emitBackward();

 private:
  // The part of a tensor that is one grain's.
  Tensor ofGrain(const Tensor& all, const Desc& desc, int grain) const {
    return {desc, all.buffer, all.offset + static_cast<std::size_t>(grain) * floatsIn(desc)};
  }
  void addParameters(std::vector<Argument>& arguments) const;
  void emitDelivery();

  Compiler& compiler_;
  const Node& node_;
  BatchNorm op_;
  std::int64_t channels_;
  Desc perChannel_;
  Parameters parameters_;
  bool isJoint_;
  Flags flags_ = Flags::none;
  dnnl::batch_normalization_forward::primitive_desc forward_;
  std::vector<Grain> grains_;
};

void BatchNormCompiler::addParameters(std::vector<Argument>& arguments) const {
  if (isJoint_) {
    const Desc both({2, channels_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nc);
    arguments.push_back({DNNL_ARG_SCALE_SHIFT, parameterTensor(both, parameters_.weightIndex)});
  } else {
    arguments.push_back({DNNL_ARG_SCALE, parameterTensor(perChannel_, parameters_.weightIndex)});
    arguments.push_back({DNNL_ARG_SHIFT, parameterTensor(perChannel_, parameters_.biasIndex)});
  }
}

void BatchNormCompiler::emitForward() {
  const bool training = compiler_.training();
  const Tensor input = compiler_.value(node_.inputs[0]);
  auto dims = input.desc.dims();
  const int grains = compiler_.graph().grainsIn(node_.inputs[0]);
  dims[0] = compiler_.grainSize();
  const Desc one = grains == 1 ? input.desc : input.desc.submemory_desc(dims, {0, 0, 0, 0});
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  forward_ = {{kind, one, op_.epsilon, flags_}, scratchpadByCaller(), cpuEngine()};
  const Desc& outputDesc = forward_.dst_desc();
  const Tensor output = compiler_.tensor(grains == 1 ? outputDesc : input.desc);
  const bool hasWorkspace = forward_.workspace_desc().get_size() > 0;  // which outputs the ReLU kept
  for (int i = 0; i < grains; ++i) {
    Grain grain{.input = ofGrain(input, one, i),
                .output = ofGrain(output, outputDesc, i),
                .mean = training ? compiler_.tensor(perChannel_)
                                 : parameterTensor(perChannel_, parameters_.meanIndex),
                .variance = training ? compiler_.tensor(perChannel_)
                                     : parameterTensor(perChannel_, parameters_.varianceIndex),
                .workspace = hasWorkspace ? compiler_.tensor(forward_.workspace_desc()) : Tensor{}};
    std::vector<Argument> arguments{{DNNL_ARG_SRC, grain.input},
                                    {DNNL_ARG_DST, grain.output},
                                    {DNNL_ARG_MEAN, grain.mean},
                                    {DNNL_ARG_VARIANCE, grain.variance}};
    addParameters(arguments);
    if (hasWorkspace) arguments.push_back({DNNL_ARG_WORKSPACE, grain.workspace});
    compiler_.emitPrimitive(node_, i == 0 ? forward_.impl_info_str() : "",
                            dnnl::batch_normalization_forward(forward_), forward_.scratchpad_desc(),
                            std::move(arguments));
    grains_.push_back(std::move(grain));
  }
  compiler_.define(node_.output, output);
}

void BatchNormCompiler::emitBackward() {
  const Desc& one = grains_.front().input.desc;
  const dnnl::batch_normalization_backward::primitive_desc back(
      {dnnl::prop_kind::backward, one, one, op_.epsilon, flags_}, scratchpadByCaller(), cpuEngine(),
      forward_);
  const bool isRound = grains_.size() > 1;
  const Desc all = compiler_.value(node_.inputs[0]).desc;
  const Tensor gradient = compiler_.gradient(node_, node_.output, isRound ? all : back.diff_dst_desc());
  const Tensor inputGradient = compiler_.tensor(isRound ? all : back.diff_src_desc());
  for (std::size_t i = 0; i < grains_.size(); ++i) {
    Grain& grain = grains_[i];
    const Desc both({2, channels_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nc);
    // One buffer for both, the bias behind the weight.
    grain.weightGradient = compiler_.tensor(both);
    grain.biasGradient = {perChannel_, grain.weightGradient.buffer, static_cast<std::size_t>(channels_)};
    std::vector<Argument> arguments{
        {DNNL_ARG_SRC, grain.input},
        {DNNL_ARG_MEAN, grain.mean},
        {DNNL_ARG_VARIANCE, grain.variance},
        {DNNL_ARG_DIFF_DST, ofGrain(gradient, back.diff_dst_desc(), static_cast<int>(i))},
        {DNNL_ARG_DIFF_SRC, ofGrain(inputGradient, back.diff_src_desc(), static_cast<int>(i))}};
    addParameters(arguments);
    if (isJoint_) {
      arguments.push_back({DNNL_ARG_DIFF_SCALE_SHIFT, grain.weightGradient});
    } else {
      arguments.push_back({DNNL_ARG_DIFF_SCALE, {perChannel_, grain.weightGradient.buffer}});
      arguments.push_back({DNNL_ARG_DIFF_SHIFT, grain.biasGradient});
    }
    if (grain.workspace.desc.get_size() > 0) arguments.push_back({DNNL_ARG_WORKSPACE, grain.workspace});
    compiler_.emitPrimitive(node_, i == 0 ? back.impl_info_str() : "",
                            dnnl::batch_normalization_backward(back), back.scratchpad_desc(),
                            std::move(arguments));
  }
  emitDelivery();
  if (compiler_.needsGradient(node_.inputs[0])) compiler_.contribute(node_, node_.inputs[0], inputGradient);
}

// values[i] of every grain that there is, added up, to the parameter's piece.
struct Delivery {
  Parameter parameter;
  std::vector<const float*> values;  // by grain
  float scale = 1;
  int firstGrain = 0;  // of the round

  void run(const RunState& state) const {
    const std::span<float> place = state.sink->open(parameter.firstPiece);
    bool isFirst = true;
    for (std::size_t g = 0; g < values.size(); ++g) {
      if (firstGrain + static_cast<int>(g) >= state.batch.grains) continue;  // padding
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = isFirst ? values[g][i] * scale : place[i] + values[g][i] * scale;
      }
      isFirst = false;
    }
    if (isFirst) std::ranges::fill(place, 0.0f);
    state.sink->close(parameter.firstPiece);
  }
};

void BatchNormCompiler::emitDelivery() {
  const auto samples =
      static_cast<float>(compiler_.grainSize() * compiler_.graph().shapeOf(node_.inputs[0]).pixels());
  const float unbiased = samples > 1 ? samples / (samples - 1) : 1.0f;
  std::vector<BufferRef> uses;
  for (const Grain& grain : grains_) {
    for (const Tensor* tensor : {&grain.weightGradient, &grain.mean, &grain.variance})
      uses.push_back(tensor->buffer);
  }
  const int first = grains_.size() > 1 ? 0 : compiler_.place().index;
  compiler_.emit(
      {node_.id, "", std::move(uses), [=, p = parameters_, grains = grains_](Binder& binder) -> Action {
         std::vector<Delivery> deliveries{{p.weight, {}, 1, first},
                                          {p.bias, {}, 1, first},
                                          {p.mean, {}, 1, first},
                                          {p.variance, {}, unbiased, first}};
         for (const Grain& grain : grains) {
           const Tensor* parts[] = {&grain.weightGradient, &grain.biasGradient, &grain.mean, &grain.variance};
           for (std::size_t i = 0; i < deliveries.size(); ++i) {
             deliveries[i].values.push_back(binder.at(parts[i]->buffer) + parts[i]->offset);
           }
         }
         return [deliveries](RunState& state) {
           for (const Delivery& delivery : deliveries) delivery.run(state);
         };
       }});
}

}  // namespace

void compileBatchNorm(Compiler& compiler, const Node& node, const BatchNorm& op) {
  const auto layer = std::make_shared<BatchNormCompiler>(compiler, node, op);
  layer->emitForward();
  compiler.onBackward([layer] { layer->emitBackward(); });
}

}  // namespace cohort
