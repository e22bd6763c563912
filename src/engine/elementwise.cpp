// ReLU, dropout, add, concat and flatten: loops of our own over whatever layout their inputs have. Padding
// channels of blocked layouts hold zeros, and every loop here keeps them zero.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "engine/compiler.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;

// Floats of one sample, padding channels included.
std::size_t sampleFloats(const Desc& desc) {
  return floatsIn(desc) / static_cast<std::size_t>(desc.dims()[0]);
}

// The gradient's own buffer where nobody else needs it, else a new one.
Tensor gradientTarget(Compiler& compiler, const Node& node, const Tensor& gradient) {
  return compiler.gradientIsExclusive(node.output) && gradient.buffer == compiler.gradient(node.output).buffer
             ? gradient
             : compiler.tensor(gradient.desc);
}

void reluForward(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = std::max(x[i], 0.0f);
}

void reluBackward(const float* y, const float* dy, float* dx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

// Which elements of one sample stay, as 0 or 1: a function of the key and the sample's position alone.
// The first `first` elements of the sample are others'.
void dropoutMask(PhiloxKey key, std::int64_t position, float rate, std::uint8_t* mask, std::size_t first,
                 std::size_t count) {
  const auto threshold = static_cast<std::uint32_t>(static_cast<double>(rate) * 4294967296.0);
  const auto low = static_cast<std::uint32_t>(position);
  const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(position) >> 32);
  for (std::size_t block = first / 4; block * 4 < first + count; ++block) {
    const PhiloxBlock bits = philox(key, {static_cast<std::uint32_t>(block), 0, low, high});
    const std::size_t last = std::min(block * 4 + 4, first + count);
    for (std::size_t i = std::max(block * 4, first); i < last; ++i) {
      mask[i - first] = bits[i % 4] >= threshold ? 1 : 0;
    }
  }
}

void applyMask(const float* x, const std::uint8_t* mask, float scale, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = mask[i] != 0 ? x[i] * scale : 0.0f;
}

// A layout in which channels can be cut behind each of the `cuts`: the first input's where those are whole
// blocks of it, else plain.
Desc cuttableLayout(const Compiler& compiler, const Node& node, std::span<const ValueId> cuts) {
  const Desc first = compiler.value(node.inputs[0]).desc;
  const auto blocks = channelBlocks(first);
  const bool fits = blocks && std::ranges::all_of(cuts, [&](ValueId value) {
                      return compiler.graph().shapeOf(value).channels % blocks->block == 0;
                    });
  return fits ? first : compiler.plainDesc(node.inputs[0]);
}

Desc withChannels(const Desc& like, std::int64_t channels) {
  using Tag = dnnl::memory::format_tag;
  auto dims = like.dims();
  const std::int64_t block = channelBlocks(like)->block;
  dims[1] = channels;
  return {dims, dnnl::memory::data_type::f32,
          block == 1   ? Tag::nchw
          : block == 8 ? Tag::nChw8c
                       : Tag::nChw16c};
}

// Copies `count` floats per sample between two arrays with their own sample strides.
void copySamples(const float* from, std::size_t fromStride, float* to, std::size_t toStride,
                 std::size_t count, std::size_t samples) {
  for (std::size_t n = 0; n < samples; ++n) {
    std::memcpy(to + n * toStride, from + n * fromStride, count * sizeof(float));
  }
}

// sum[n] += part[n] over the first `count` floats of each sample.
void addSamples(float* sum, std::size_t sumStride, const float* part, std::size_t partStride,
                std::size_t count, std::size_t samples) {
  for (std::size_t n = 0; n < samples; ++n) {
    float* a = sum + n * sumStride;
    const float* b = part + n * partStride;
    for (std::size_t i = 0; i < count; ++i) a[i] += b[i];
  }
}

}  // namespace

void compileRelu(Compiler& compiler, const Node& node) {
  const ValueId in = node.inputs[0];
  const Tensor input = compiler.value(in);
  const Node* before = compiler.producer(in);
  const bool fused = before != nullptr && compiler.fusesRelu(*before);
  Tensor output = input;
  if (!fused) {
    if (!compiler.mayOverwrite(in)) output = compiler.tensor(input.desc);
    const std::size_t count = floatsIn(input.desc);
    compiler.emit({node.id, "loop", {input.buffer, output.buffer}, [=](Binder& binder) -> Action {
                     float* y = binder.at(output.buffer);
                     return [=, &binder](RunState& state) {
                       reluForward(binder.at(input.buffer, state), y, count);
                     };
                   }});
  }
  compiler.define(node.output, output, output.buffer == input.buffer ? in : -1);
  const bool withBatchNorm = fused && std::holds_alternative<BatchNorm>(before->op);
  if (!withBatchNorm) compiler.readSignsInBackward(node.output);

  compiler.onBackward([=, &compiler, &node] {
    if (!compiler.needsGradient(in)) return;
    if (withBatchNorm) {  // its own backward kernel does it
      compiler.contribute(node, in, compiler.gradient(node.output));
      return;
    }
    const Tensor gradient = compiler.gradient(node, node.output, output.desc);
    const Tensor target = gradientTarget(compiler, node, gradient);
    const std::size_t count = floatsIn(output.desc);
    compiler.emit(
        {node.id, "", {output.buffer, gradient.buffer, target.buffer}, [=](Binder& binder) -> Action {
           const float* y = binder.at(output.buffer);
           const float* dy = binder.at(gradient.buffer);
           float* dx = binder.at(target.buffer);
           return [=](RunState&) { reluBackward(y, dy, dx, count); };
         }});
    compiler.contribute(node, in, target);
  });
}

void compileDropout(Compiler& compiler, const Node& node, const Dropout& op) {
  const ValueId in = node.inputs[0];
  if (!compiler.training() || op.rate == 0.0f) {
    compiler.define(node.output, compiler.value(in), in);
    compiler.onBackward([&compiler, &node, in] {
      if (compiler.needsGradient(in)) compiler.contribute(node, in, compiler.gradient(node.output));
    });
    return;
  }
  // Elements are counted in plain order, so that the mask does not depend on the layout.
  const Tensor input = compiler.value(node, in, compiler.plainDesc(in));
  const bool inPlace = compiler.mayOverwrite(in);
  const Tensor output = inPlace ? input : compiler.tensor(input.desc);
  const auto samples = static_cast<std::size_t>(compiler.batch(node.output));
  const std::size_t count = sampleFloats(input.desc);
  const BufferRef mask = compiler.buffer(samples * count);
  const float scale = 1.0f / (1.0f - op.rate);
  const auto first = static_cast<std::size_t>(op.firstChannel * compiler.graph().shapeOf(in).pixels());
  const bool isRound = compiler.graph().grainsIn(in) > 1;
  compiler.emit({node.id,
                 "loop",
                 {input.buffer, output.buffer, mask},
                 [=, layer = hashName(node.name)](Binder& binder) -> Action {
                   float* y = binder.at(output.buffer);
                   auto* bits = reinterpret_cast<std::uint8_t*>(binder.at(mask));
                   return [=, &binder](RunState& state) {
                     const PhiloxKey key = philoxKey(state.seed, layer);
                     const float* x = binder.at(input.buffer, state);
                     const std::int64_t position = isRound ? state.roundPosition : state.position;
                     for (std::size_t n = 0; n < samples; ++n) {
                       const std::size_t at = n * count;
                       dropoutMask(key, position + static_cast<std::int64_t>(n), op.rate, bits + at, first,
                                   count);
                       applyMask(x + at, bits + at, scale, y + at, count);
                     }
                   };
                 }});
  compiler.define(node.output, output, inPlace ? in : -1);

  compiler.onBackward([=, &compiler, &node] {
    if (!compiler.needsGradient(in)) return;
    const Tensor gradient = compiler.gradient(node, node.output, output.desc);
    const Tensor target = gradientTarget(compiler, node, gradient);
    compiler.emit({node.id, "", {gradient.buffer, target.buffer, mask}, [=](Binder& binder) -> Action {
                     const float* dy = binder.at(gradient.buffer);
                     float* dx = binder.at(target.buffer);
                     const auto* bits = reinterpret_cast<const std::uint8_t*>(binder.at(mask));
                     return [=](RunState&) { applyMask(dy, bits, scale, dx, samples * count); };
                   }});
    compiler.contribute(node, in, target);
  });
}

void compileConcat(Compiler& compiler, const Node& node) {
  const Desc like = cuttableLayout(compiler, node, std::span(node.inputs).first(node.inputs.size() - 1));
  const auto samples = static_cast<std::size_t>(compiler.batch(node.output));
  const Tensor output = compiler.tensor(withChannels(like, compiler.graph().shapeOf(node.output).channels));
  const std::size_t outputStride = sampleFloats(output.desc);
  const std::int64_t pixels = compiler.graph().shapeOf(node.output).pixels();

  std::vector<std::size_t> places;  // of each input within a sample
  std::vector<Desc> layouts;
  std::size_t place = 0;
  for (const ValueId in : node.inputs) {
    const std::int64_t channels = compiler.graph().shapeOf(in).channels;
    const Desc layout = withChannels(like, channels);
    const Tensor input = compiler.value(node, in, layout);
    const std::size_t count = sampleFloats(layout);
    compiler.emit(
        {node.id, places.empty() ? "copy" : "", {input.buffer, output.buffer}, [=](Binder& binder) -> Action {
           float* to = binder.at(output.buffer) + place;
           return [=, &binder](RunState& state) {
             copySamples(binder.at(input.buffer, state), count, to, outputStride, count, samples);
           };
         }});
    places.push_back(place);
    layouts.push_back(layout);
    place += static_cast<std::size_t>(channels * pixels);
  }
  compiler.define(node.output, output);

  compiler.onBackward([=, &compiler, &node] {
    const Tensor gradient = compiler.gradient(node, node.output, output.desc);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!compiler.needsGradient(node.inputs[i])) continue;
      const Tensor part = compiler.tensor(layouts[i]);
      const std::size_t count = sampleFloats(layouts[i]);
      compiler.emit(
          {node.id, "", {gradient.buffer, part.buffer}, [=, from = places[i]](Binder& binder) -> Action {
             const float* dy = binder.at(gradient.buffer) + from;
             float* dx = binder.at(part.buffer);
             return [=](RunState&) { copySamples(dy, outputStride, dx, count, count, samples); };
           }});
      compiler.contribute(node, node.inputs[i], part);
    }
  });
}

void compileAdd(Compiler& compiler, const Node& node) {
  const ValueId first = node.inputs[0];
  std::vector<ValueId> narrower;
  for (const ValueId in : node.inputs) {
    if (compiler.graph().shapeOf(in).channels < compiler.graph().shapeOf(first).channels)
      narrower.push_back(in);
  }
  const Desc layout = cuttableLayout(compiler, node, narrower);
  const Tensor base = compiler.value(node, first, layout);
  const bool inPlace = compiler.mayOverwrite(first) && !compiler.signsAreRead(first);
  const Tensor output = inPlace ? base : compiler.tensor(layout);
  const auto samples = static_cast<std::size_t>(compiler.batch(node.output));
  const std::size_t stride = sampleFloats(layout);
  const bool relu = compiler.fusesRelu(node);

  struct Part {
    BufferRef buffer;
    std::size_t count;  // floats of one sample
  };
  std::vector<Part> parts;
  std::vector<BufferRef> uses{base.buffer, output.buffer};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const std::int64_t channels = compiler.graph().shapeOf(node.inputs[i]).channels;
    const Tensor part = compiler.value(node, node.inputs[i], withChannels(layout, channels));
    parts.push_back({part.buffer, sampleFloats(part.desc)});
    uses.push_back(parts.back().buffer);
  }
  compiler.emit({node.id, "loop", std::move(uses), [=](Binder& binder) -> Action {
                   float* y = binder.at(output.buffer);
                   return [=, &binder](RunState& state) {
                     const float* x = binder.at(base.buffer, state);
                     if (x != y) std::memcpy(y, x, samples * stride * sizeof(float));
                     for (const auto& [part, count] : parts) {
                       addSamples(y, stride, binder.at(part, state), count, count, samples);
                     }
                     if (relu) reluForward(y, y, samples * stride);
                   };
                 }});
  compiler.define(node.output, output, inPlace ? first : -1);

  compiler.onBackward([=, &compiler, &node] {
    const Tensor gradient = compiler.gradient(node, node.output, layout);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!compiler.needsGradient(in)) continue;
      const Desc wanted = withChannels(layout, compiler.graph().shapeOf(in).channels);
      if (wanted == layout) {
        compiler.contribute(node, in, gradient);
        continue;
      }
      const Tensor part = compiler.tensor(wanted);
      const std::size_t count = sampleFloats(wanted);
      compiler.emit({node.id, "", {gradient.buffer, part.buffer}, [=](Binder& binder) -> Action {
                       const float* dy = binder.at(gradient.buffer);
                       float* dx = binder.at(part.buffer);
                       return [=](RunState&) { copySamples(dy, stride, dx, count, count, samples); };
                     }});
      compiler.contribute(node, in, part);
    }
  });
}

void compileFlatten(Compiler& compiler, const Node& node) {
  const ValueId in = node.inputs[0];
  const Tensor plain = compiler.value(node, in, compiler.plainDesc(in));
  compiler.define(node.output, {compiler.plainDesc(node.output), plain.buffer}, in);
  compiler.onBackward([=, &compiler, &node] {
    if (!compiler.needsGradient(in)) return;
    const Tensor gradient = compiler.gradient(node, node.output, compiler.plainDesc(node.output));
    compiler.contribute(node, in, {compiler.plainDesc(in), gradient.buffer});
  });
}

}  // namespace cohort
