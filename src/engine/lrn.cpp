// Local response normalisation across channels, y = x * s^-beta with s = bias + alpha * sum of squares over a
// window of channels. Our own loop (oneDNN has a fast one for windows of 5 only): a pixel's channels are
// gathered into a row, and every step over the row vectorises. Backward computes s again instead of keeping
// it:
//   dx = dy * s^-beta - 2 * alpha * beta * x * (sum over the window of dy * x * s^-beta / s)
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/compiler.h"

namespace cohort {
namespace {

// How to find the channels of one pixel, and the rows to work in.
struct Geometry {
  std::size_t samples, pixels, channels, block;  // channels with padding
  std::size_t halfWindow;
  std::size_t rowFloats() const { return channels + 2 * halfWindow; }
};

void gather(const Geometry& g, const float* pixel, float* row) {
  if (g.block == 1) {
    for (std::size_t c = 0; c < g.channels; ++c) row[c] = pixel[c * g.pixels];
  } else {
    for (std::size_t c = 0; c < g.channels; c += g.block) {
      std::memcpy(row + c, pixel + c * g.pixels, g.block * sizeof(float));
    }
  }
}

void scatter(const Geometry& g, const float* row, float* pixel) {
  if (g.block == 1) {
    for (std::size_t c = 0; c < g.channels; ++c) pixel[c * g.pixels] = row[c];
  } else {
    for (std::size_t c = 0; c < g.channels; c += g.block) {
      std::memcpy(pixel + c * g.pixels, row + c, g.block * sizeof(float));
    }
  }
}

// sums[c] = padded[c] + … + padded[c + window - 1]
void windowSums(const Geometry& g, const float* padded, float* sums) {
  std::copy_n(padded, g.channels, sums);
  for (std::size_t j = 1; j <= 2 * g.halfWindow; ++j) {
    for (std::size_t c = 0; c < g.channels; ++c) sums[c] += padded[c + j];
  }
}

void inversePower(const float* s, float beta, float* result, std::size_t count) {
  if (beta == 0.75f) {  // the usual one, without a call per element
    for (std::size_t c = 0; c < count; ++c) {
      const float root = std::sqrt(s[c]);
      result[c] = 1.0f / (root * std::sqrt(root));
    }
  } else {
    for (std::size_t c = 0; c < count; ++c) result[c] = std::pow(s[c], -beta);
  }
}

// Rows of one lane: `padded` has halfWindow zeros at both ends.
struct Rows {
  Rows(const Geometry& g, float* scratch)
      : padded(scratch),
        middle(scratch + g.halfWindow),
        x(scratch + g.rowFloats()),
        s(x + g.channels),
        power(s + g.channels),
        dy(power + g.channels) {
    std::fill_n(padded, g.rowFloats(), 0.0f);
  }
  static std::size_t floats(const Geometry& g) { return g.rowFloats() + 4 * g.channels; }

  float *padded, *middle, *x, *s, *power, *dy;
};

void scales(const Geometry& g, const Lrn& op, const Rows& rows) {
  for (std::size_t c = 0; c < g.channels; ++c) rows.middle[c] = rows.x[c] * rows.x[c];
  windowSums(g, rows.padded, rows.s);
  for (std::size_t c = 0; c < g.channels; ++c) rows.s[c] = op.bias + op.alpha * rows.s[c];
  inversePower(rows.s, op.beta, rows.power, g.channels);
}

template <class PixelWork>
void forEachPixel(const Geometry& g, PixelWork&& work) {
  for (std::size_t n = 0; n < g.samples; ++n) {
    const std::size_t sample = n * g.channels * g.pixels;
    for (std::size_t p = 0; p < g.pixels; ++p) work(sample + p * g.block);
  }
}

void forward(const Geometry& g, const Lrn& op, const float* x, float* y, float* scratch) {
  const Rows rows(g, scratch);
  forEachPixel(g, [&](std::size_t at) {
    gather(g, x + at, rows.x);
    scales(g, op, rows);
    for (std::size_t c = 0; c < g.channels; ++c) rows.x[c] *= rows.power[c];
    scatter(g, rows.x, y + at);
  });
}

void backward(const Geometry& g, const Lrn& op, const float* x, const float* dy, float* dx, float* scratch) {
  const Rows rows(g, scratch);
  const float factor = 2.0f * op.alpha * op.beta;
  forEachPixel(g, [&](std::size_t at) {
    gather(g, x + at, rows.x);
    gather(g, dy + at, rows.dy);
    scales(g, op, rows);
    for (std::size_t c = 0; c < g.channels; ++c) {
      rows.middle[c] = rows.dy[c] * rows.x[c] * rows.power[c] / rows.s[c];
    }
    windowSums(g, rows.padded, rows.s);
    for (std::size_t c = 0; c < g.channels; ++c) {
      rows.dy[c] = rows.dy[c] * rows.power[c] - factor * rows.x[c] * rows.s[c];
    }
    scatter(g, rows.dy, dx + at);
  });
}

}  // namespace

void compileLrn(Compiler& compiler, const Node& node, const Lrn& op) {
  const ValueId in = node.inputs[0];
  const dnnl::memory::desc given = compiler.value(in).desc;
  const dnnl::memory::desc layout = channelBlocks(given) ? given : compiler.plainDesc(in);
  const Tensor input = compiler.value(node, in, layout);
  const ChannelBlocks blocks = *channelBlocks(layout);
  const Geometry g{static_cast<std::size_t>(compiler.batch(in)),
                   static_cast<std::size_t>(compiler.graph().shapeOf(in).pixels()),
                   static_cast<std::size_t>(blocks.paddedChannels), static_cast<std::size_t>(blocks.block),
                   static_cast<std::size_t>(op.size / 2)};
  const Tensor output = compiler.tensor(layout);
  const BufferRef scratch = compiler.buffer(Rows::floats(g) * sizeof(float));
  compiler.emit({node.id, "loop", {input.buffer, output.buffer, scratch}, [=](Binder& binder) -> Action {
                   float* y = binder.at(output.buffer);
                   float* rows = binder.at(scratch);
                   return [=, &binder](RunState& state) {
                     forward(g, op, binder.at(input.buffer, state), y, rows);
                   };
                 }});
  compiler.define(node.output, output);

  compiler.onBackward([=, &compiler, &node] {
    if (!compiler.needsGradient(in)) return;
    const Tensor gradient = compiler.gradient(node, node.output, layout);
    const Tensor inputGradient = compiler.tensor(layout);
    const BufferRef backScratch = compiler.buffer(Rows::floats(g) * sizeof(float));
    compiler.emit({node.id,
                   "",
                   {input.buffer, gradient.buffer, inputGradient.buffer, backScratch},
                   [=](Binder& binder) -> Action {
                     const float* x = binder.at(input.buffer);
                     const float* dy = binder.at(gradient.buffer);
                     float* dx = binder.at(inputGradient.buffer);
                     float* rows = binder.at(backScratch);
                     return [=](RunState&) { backward(g, op, x, dy, dx, rows); };
                   }});
    compiler.contribute(node, in, inputGradient);
  });
}

}  // namespace cohort
