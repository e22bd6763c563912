// Max and average pooling by oneDNN, in the layout of the input.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/compiler.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct Window {
  Dims kernel, strides, paddingBefore, paddingAfter;
};

Window windowOf(const Pool& op, const Shape& in, const Shape& out) {
  if (op.global) return {{in.height, in.width}, {1, 1}, {0, 0}, {0, 0}};
  const Padding padding = resolvePadding(op.padding, op.kernel, op.stride, in);
  // A partly outside last window (roundUp) is more padding behind.
  const auto after = [](std::int64_t outputs, int stride, int kernel, std::int64_t inputs, int before,
                        int behind) {
    return std::max<std::int64_t>(behind, (outputs - 1) * stride + kernel - inputs - before);
  };
  return {{op.kernel.height, op.kernel.width},
          {op.stride.height, op.stride.width},
          {padding.top, padding.left},
          {after(out.height, op.stride.height, op.kernel.height, in.height, padding.top, padding.bottom),
           after(out.width, op.stride.width, op.kernel.width, in.width, padding.left, padding.right)}};
}

dnnl::algorithm algorithmOf(const Pool& op) {
  if (op.kind == Pool::Kind::Max) return dnnl::algorithm::pooling_max;
  return op.countPadding ? dnnl::algorithm::pooling_avg_include_padding
                         : dnnl::algorithm::pooling_avg_exclude_padding;
}

}  // namespace

void compilePool(Compiler& compiler, const Node& node, const Pool& op) {
  const Tensor input = compiler.value(node.inputs[0]);
  const Shape& out = compiler.graph().shapeOf(node.output);
  const Window window = windowOf(op, compiler.graph().shapeOf(node.inputs[0]), out);
  const auto kind =
      compiler.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const Desc anyOutput({compiler.batch(node.output), out.channels, out.height, out.width},
                       dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  const dnnl::pooling_forward::primitive_desc decided(
      {kind, algorithmOf(op), input.desc, anyOutput, window.strides, window.kernel, window.paddingBefore,
       window.paddingAfter},
      scratchpadByCaller(), cpuEngine());

  const Tensor output = compiler.tensor(decided.dst_desc());
  const bool hasWorkspace = decided.workspace_desc().get_size() > 0;  // where each maximum was
  const Tensor workspace = hasWorkspace ? compiler.tensor(decided.workspace_desc()) : Tensor{};
  std::vector<Argument> arguments{{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}};
  if (hasWorkspace) arguments.push_back({DNNL_ARG_WORKSPACE, workspace});
  compiler.emitPrimitive(node, decided.impl_info_str(), dnnl::pooling_forward(decided),
                         decided.scratchpad_desc(), std::move(arguments));
  compiler.define(node.output, output);

  compiler.onBackward([=, &compiler, &node] {
    if (!compiler.needsGradient(node.inputs[0])) return;
    const dnnl::pooling_backward::primitive_desc back(
        {algorithmOf(op), input.desc, output.desc, window.strides, window.kernel, window.paddingBefore,
         window.paddingAfter},
        scratchpadByCaller(), cpuEngine(), decided);
    const Tensor inputGradient = compiler.tensor(back.diff_src_desc());
    std::vector<Argument> backArguments{
        {DNNL_ARG_DIFF_DST, compiler.gradient(node, node.output, back.diff_dst_desc())},
        {DNNL_ARG_DIFF_SRC, inputGradient}};
    if (hasWorkspace) backArguments.push_back({DNNL_ARG_WORKSPACE, workspace});
    compiler.emitPrimitive(node, back.impl_info_str(), dnnl::pooling_backward(back), back.scratchpad_desc(),
                           std::move(backArguments));
    compiler.contribute(node, node.inputs[0], inputGradient);
  });
}

}  // namespace cohort
