// Fully connected layers: three matrix products on the plain weights, in place, all by oneDNN: its matmul primitive
// forward (which also adds the bias and does the ReLU), its GEMM call backward. Each is the fastest of what oneDNN and
// OpenBLAS offer for that product at the sizes that matter on AVX-512, and within a tenth of it on AVX2; one library is
// left to bind to an instruction set.
#include <algorithm>
#include <string>

#include <oneapi/dnnl/dnnl.h>

#include "base/error.h"
#include "engine/compiler.h"

namespace cohort {
namespace {

void multiply(char transposeA, char transposeB, std::int64_t m, std::int64_t n, std::int64_t k,
              const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
              std::int64_t ldc) {
  const dnnl_status_t status =
      dnnl_sgemm(transposeA, transposeB, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
  COHORT_CHECK(status == dnnl_success, "a oneDNN matrix product failed");
}

void sumRows(const float* rows, std::int64_t rowCount, std::int64_t width, std::span<float> sums) {
  std::ranges::copy_n(rows, width, sums.begin());
  for (std::int64_t row = 1; row < rowCount; ++row) {
    const float* values = rows + row * width;
    for (std::int64_t i = 0; i < width; ++i) sums[static_cast<std::size_t>(i)] += values[i];
  }
}

struct Layer {
  std::int64_t batch, inputs, outputs;
  Parameter weight, bias;
  ParameterIndex weightIndex, biasIndex;
};

// y = x W^T + bias, and the ReLU: one primitive.
void emitForward(Compiler& compiler, const Node& node, const Layer& layer, const Tensor& input,
                 const Tensor& output) {
  using Desc = dnnl::memory::desc;
  using Tag = dnnl::memory::format_tag;
  constexpr auto kF32 = dnnl::memory::data_type::f32;
  const Tensor x{Desc({layer.batch, layer.inputs}, kF32, Tag::ab), input.buffer};
  const Tensor y{Desc({layer.batch, layer.outputs}, kF32, Tag::ab), output.buffer};
  // [inputs, outputs], transposed in place: the arena's rows are its columns.
  const Tensor weight{Desc({layer.inputs, layer.outputs}, kF32, Tag::ba),
                      {BufferRef::Kind::Parameter, layer.weightIndex}};
  std::vector<Argument> arguments{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, y}};
  Desc biasDesc;
  if (layer.biasIndex >= 0) {
    biasDesc = Desc({1, layer.outputs}, kF32, Tag::ab);
    arguments.push_back({DNNL_ARG_BIAS, {biasDesc, {BufferRef::Kind::Parameter, layer.biasIndex}}});
  }
  dnnl::primitive_attr attributes = scratchpadByCaller();
  if (compiler.fusesRelu(node)) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  const dnnl::matmul::primitive_desc decided({x.desc, weight.desc, biasDesc, y.desc}, attributes,
                                             cpuEngine());
  compiler.emitPrimitive(node, decided.impl_info_str(), dnnl::matmul(decided), decided.scratchpad_desc(),
                         std::move(arguments));
}

void emitBackwardData(Compiler& compiler, const Node& node, const Layer& layer,
                      const Tensor& outputGradient) {
  const Tensor inputGradient = compiler.tensor(compiler.plainDesc(node.inputs[0]));
  compiler.emit(
      {node.id, "gemm", {outputGradient.buffer, inputGradient.buffer}, [=](Binder& binder) -> Action {
         const float* weight = binder.parameter(layer.weightIndex);
         const float* dy = binder.at(outputGradient.buffer);
         float* dx = binder.at(inputGradient.buffer);
         return [=](RunState&) {
           multiply('N', 'N', layer.batch, layer.inputs, layer.outputs, dy, layer.outputs, weight,
                    layer.inputs, dx, layer.inputs);
         };
       }});
  compiler.contribute(node, node.inputs[0], inputGradient);
}

// Piece by piece: some rows of the weight gradient, while they are summed still in the cache.
void emitBackwardWeights(Compiler& compiler, const Node& node, const Layer& layer, const Tensor& input,
                         const Tensor& outputGradient) {
  const ParameterLayout& layout = compiler.layout();
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(layer.weight.pieceCount));
  for (int i = 0; i < layer.weight.pieceCount; ++i)
    pieces.push_back(layout.piece(layer.weight.firstPiece + i));
  compiler.emit({node.id, "gemm", {input.buffer, outputGradient.buffer}, [=](Binder& binder) -> Action {
                   const float* dy = binder.at(outputGradient.buffer);
                   return [=, &binder](RunState& state) {
                     const float* x = binder.at(input.buffer, state);
                     if (layer.biasIndex >= 0) {
                       const std::span<float> sums = state.sink->open(layer.bias.firstPiece);
                       sumRows(dy, layer.batch, layer.outputs, sums);
                       state.sink->close(layer.bias.firstPiece);
                     }
                     PieceIndex index = layer.weight.firstPiece;
                     for (const Piece& piece : pieces) {
                       const auto firstRow =
                           static_cast<std::int64_t>(piece.offset - layer.weight.offset) / layer.inputs;
                       const auto rows = static_cast<std::int64_t>(piece.size) / layer.inputs;
                       float* dw = state.sink->open(index).data();
                       multiply('T', 'N', rows, layer.inputs, layer.batch, dy + firstRow, layer.outputs, x,
                                layer.inputs, dw, layer.inputs);
                       state.sink->close(index++);
                     }
                   };
                 }});
}

}  // namespace

void compileDense(Compiler& compiler, const Node& node, const Dense& op) {
  Layer layer{.batch = compiler.batch(node.output),
              .inputs = compiler.graph().shapeOf(node.inputs[0]).count(),
              .outputs = op.outputs,
              .weight = {},
              .bias = {},
              .weightIndex = compiler.parameter(node, ".weight"),
              .biasIndex = op.bias ? compiler.parameter(node, ".bias") : -1};
  layer.weight = compiler.layout().at(layer.weightIndex);
  if (op.bias) layer.bias = compiler.layout().at(layer.biasIndex);

  // [batch, inputs, 1, 1] in whatever layout becomes plain rows.
  const Tensor plain = compiler.value(node, node.inputs[0], compiler.plainDesc(node.inputs[0]));
  const Tensor output = compiler.tensor(compiler.plainDesc(node.output));
  emitForward(compiler, node, layer, plain, output);
  compiler.define(node.output, output);

  compiler.onBackward([&compiler, &node, layer, plain] {
    const Tensor outputGradient = compiler.gradient(node, node.output, compiler.plainDesc(node.output));
    if (compiler.needsGradient(node.inputs[0])) emitBackwardData(compiler, node, layer, outputGradient);
    emitBackwardWeights(compiler, node, layer, plain, outputGradient);
  });
}

}  // namespace cohort
