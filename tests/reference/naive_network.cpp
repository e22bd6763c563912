#include "tests/reference/naive_network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "base/philox.h"

namespace cohort::reference {
namespace {

using Values = std::vector<double>;

std::size_t index(const Shape& shape, std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
  return static_cast<std::size_t>(((n * shape.channels + c) * shape.height + y) * shape.width + x);
}

bool inside(const Shape& shape, std::int64_t y, std::int64_t x) {
  return y >= 0 && y < shape.height && x >= 0 && x < shape.width;
}

// Calls work(n, c, y, x) for every element of a batch.
template <class Work>
void forEach(std::int64_t samples, const Shape& shape, Work&& work) {
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      for (std::int64_t y = 0; y < shape.height; ++y) {
        for (std::int64_t x = 0; x < shape.width; ++x) work(n, c, y, x);
      }
    }
  }
}

// Whether dropout keeps element `element` of the sample at `position`: word element mod 4 of block element
// div 4, kept when at least rate * 2^32.
bool keeps(PhiloxKey key, std::int64_t position, std::size_t element, float rate) {
  const auto unsignedPosition = static_cast<std::uint64_t>(position);
  const PhiloxBlock block =
      philox(key, {static_cast<std::uint32_t>(element / 4), 0, static_cast<std::uint32_t>(unsignedPosition),
                   static_cast<std::uint32_t>(unsignedPosition >> 32)});
  return static_cast<double>(block[element % 4]) >= std::floor(static_cast<double>(rate) * 0x1p32);
}

}  // namespace

struct NaiveNetwork::Evaluate {
  NaiveNetwork& net;
  const Node& node;

  std::int64_t samples() const { return net.batch_.size(); }
  const Shape& inShape(std::size_t i = 0) const { return net.graph_.shapeOf(node.inputs[i]); }
  const Shape& outShape() const { return net.graph_.shapeOf(node.output); }
  const Values& in(std::size_t i = 0) const { return net.values_[static_cast<std::size_t>(node.inputs[i])]; }
  const double* parameter(const char* suffix) const {
    const ParameterIndex found = net.layout_.find(node.name + suffix);
    return found < 0 ? nullptr : net.parameters_.data() + net.layout_.at(found).offset;
  }
  Values zeros() const { return Values(static_cast<std::size_t>(samples() * outShape().count()), 0.0); }

  Values operator()(const Conv& op) const {
    const Shape& from = inShape();
    const Shape& to = outShape();
    const Padding padding = resolvePadding(op.padding, op.kernel, op.stride, from);
    const std::int64_t inputs = from.channels / op.groups;
    const std::int64_t outputs = to.channels / op.groups;
    const double* weight = parameter(".weight");
    const double* bias = parameter(".bias");
    Values result = zeros();
    forEach(samples(), to, [&](auto n, auto c, auto y, auto x) {
      double sum = bias == nullptr ? 0.0 : bias[c];
      for (std::int64_t i = 0; i < inputs; ++i) {
        for (std::int64_t ky = 0; ky < op.kernel.height; ++ky) {
          for (std::int64_t kx = 0; kx < op.kernel.width; ++kx) {
            const std::int64_t sy = y * op.stride.height - padding.top + ky;
            const std::int64_t sx = x * op.stride.width - padding.left + kx;
            if (!inside(from, sy, sx)) continue;
            sum += weight[((c * inputs + i) * op.kernel.height + ky) * op.kernel.width + kx] *
                   in()[index(from, n, c / outputs * inputs + i, sy, sx)];
          }
        }
      }
      result[index(to, n, c, y, x)] = sum;
    });
    return result;
  }

  Values operator()(const Dense& op) const {
    const std::int64_t inputs = inShape().count();
    const double* weight = parameter(".weight");
    const double* bias = parameter(".bias");
    Values result = zeros();
    for (std::int64_t n = 0; n < samples(); ++n) {
      for (std::int64_t o = 0; o < op.outputs; ++o) {
        double sum = bias == nullptr ? 0.0 : bias[o];
        for (std::int64_t i = 0; i < inputs; ++i) {
          sum += weight[o * inputs + i] * in()[static_cast<std::size_t>(n * inputs + i)];
        }
        result[static_cast<std::size_t>(n * op.outputs + o)] = sum;
      }
    }
    return result;
  }

  Values operator()(const Pool& op) const {
    const Shape& from = inShape();
    const Extent kernel =
        op.global ? Extent(static_cast<int>(from.height), static_cast<int>(from.width)) : op.kernel;
    const Extent stride = op.global ? Extent(1) : op.stride;
    const Padding padding =
        op.global ? Padding::all(0) : resolvePadding(op.padding, op.kernel, op.stride, from);
    Values result = zeros();
    forEach(samples(), outShape(), [&](auto n, auto c, auto y, auto x) {
      double largest = -std::numeric_limits<double>::infinity();
      double sum = 0.0;
      int within = 0;
      for (std::int64_t ky = 0; ky < kernel.height; ++ky) {
        for (std::int64_t kx = 0; kx < kernel.width; ++kx) {
          const std::int64_t sy = y * stride.height - padding.top + ky;
          const std::int64_t sx = x * stride.width - padding.left + kx;
          if (!inside(from, sy, sx)) continue;
          const double value = in()[index(from, n, c, sy, sx)];
          largest = std::max(largest, value);
          sum += value;
          ++within;
        }
      }
      const int divisor = op.countPadding ? kernel.height * kernel.width : within;
      result[index(outShape(), n, c, y, x)] = op.kind == Pool::Kind::Max ? largest : sum / divisor;
    });
    return result;
  }

  Values operator()(const Relu&) const {
    Values result = in();
    for (double& value : result) value = std::max(value, 0.0);
    return result;
  }

  Values operator()(const Lrn& op) const {
    const Shape& shape = inShape();
    Values result = zeros();
    forEach(samples(), shape, [&](auto n, auto c, auto y, auto x) {
      double squares = 0.0;
      for (std::int64_t other = c - op.size / 2; other <= c + op.size / 2; ++other) {
        if (other < 0 || other >= shape.channels) continue;
        const double value = in()[index(shape, n, other, y, x)];
        squares += value * value;
      }
      const double scale = static_cast<double>(op.bias) + static_cast<double>(op.alpha) * squares;
      const std::size_t at = index(shape, n, c, y, x);
      result[at] = in()[at] / std::pow(scale, static_cast<double>(op.beta));
    });
    return result;
  }

  Values operator()(const BatchNorm& op) const {
    const Shape& shape = inShape();
    const auto channels = static_cast<std::size_t>(shape.channels);
    const double count = static_cast<double>(samples() * shape.pixels());
    Values mean(channels, 0.0);
    Values variance(channels, 0.0);
    if (net.options_.training) {
      forEach(samples(), shape, [&](auto n, auto c, auto y, auto x) {
        mean[static_cast<std::size_t>(c)] += in()[index(shape, n, c, y, x)] / count;
      });
      forEach(samples(), shape, [&](auto n, auto c, auto y, auto x) {
        const double distance = in()[index(shape, n, c, y, x)] - mean[static_cast<std::size_t>(c)];
        variance[static_cast<std::size_t>(c)] += distance * distance / count;
      });
      net.statistics_[node.name + ".running_mean"] = mean;
      Values unbiased = variance;
      for (double& value : unbiased) value *= count > 1 ? count / (count - 1) : 1.0;
      net.statistics_[node.name + ".running_var"] = unbiased;
    } else {
      std::copy_n(parameter(".running_mean"), channels, mean.begin());
      std::copy_n(parameter(".running_var"), channels, variance.begin());
    }
    Values result = zeros();
    forEach(samples(), shape, [&](auto n, auto c, auto y, auto x) {
      const auto channel = static_cast<std::size_t>(c);
      const std::size_t at = index(shape, n, c, y, x);
      const double normalised =
          (in()[at] - mean[channel]) / std::sqrt(variance[channel] + static_cast<double>(op.epsilon));
      result[at] = parameter(".weight")[channel] * normalised + parameter(".bias")[channel];
    });
    return result;
  }

  Values operator()(const Dropout& op) const {
    if (!net.options_.training || op.rate == 0.0f) return in();
    const PhiloxKey key = philoxKey(net.options_.seed, hashName(node.name));
    const auto count = static_cast<std::size_t>(inShape().count());
    Values result = in();
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::int64_t position = net.batch_.position + static_cast<std::int64_t>(i / count);
      result[i] =
          keeps(key, position, i % count, op.rate) ? result[i] / (1.0 - static_cast<double>(op.rate)) : 0.0;
    }
    return result;
  }

  Values operator()(const Concat&) const {
    Values result = zeros();
    std::int64_t before = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      forEach(samples(), inShape(i), [&](auto n, auto c, auto y, auto x) {
        result[index(outShape(), n, before + c, y, x)] = in(i)[index(inShape(i), n, c, y, x)];
      });
      before += inShape(i).channels;
    }
    return result;
  }

  Values operator()(const Add&) const {
    Values result = zeros();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      forEach(samples(), inShape(i), [&](auto n, auto c, auto y, auto x) {
        result[index(outShape(), n, c, y, x)] += in(i)[index(inShape(i), n, c, y, x)];
      });
    }
    return result;
  }

  Values operator()(const Flatten&) const { return in(); }
  Values operator()(const Redistribute&) const { return in(); }  // one worker has everything

  Values operator()(const SoftmaxLoss&) const {
    const std::int64_t classes = inShape().count();
    double total = 0.0;
    for (std::int64_t n = 0; n < samples(); ++n) {
      const std::int32_t label = net.batch_.labels[static_cast<std::size_t>(n)];
      if (label == kIgnoredLabel) continue;
      const double* logits = in().data() + n * classes;
      const double largest = *std::max_element(logits, logits + classes);
      double sum = 0.0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
      total += largest + std::log(sum) - logits[label];
    }
    net.losses_[node.id] = total;
    return {};
  }
};

NaiveNetwork::NaiveNetwork(const Graph& graph, std::span<const double> parameters, const Batch& batch,
                           const Options& options)
    : graph_(graph),
      layout_(parameterLayout(graph)),
      parameters_(parameters.begin(), parameters.end()),
      batch_(batch),
      options_(options),
      readers_(layout_.parameters().size(), 0),
      values_(graph.values.size()) {
  for (const Node& node : graph_.nodes) {
    for (const ParameterSpec& spec : parametersOf(graph_, node)) {
      readers_[static_cast<std::size_t>(layout_.find(spec.name))] = node.id;
    }
  }
  values_[0].assign(batch.images.begin(), batch.images.end());
  run();
}

NaiveNetwork::NaiveNetwork(const Graph& graph, std::span<const float> parameters, const Batch& batch,
                           const Options& options)
    : NaiveNetwork(graph, Values(parameters.begin(), parameters.end()), batch, options) {}

void NaiveNetwork::run(NodeId first) {
  for (const Node& node : graph_.nodes) {
    if (node.id < first) continue;
    const auto* loss = std::get_if<SoftmaxLoss>(&node.op);
    if (loss != nullptr && !loss->evaluated && !options_.training) continue;
    values_[static_cast<std::size_t>(node.output)] = std::visit(Evaluate{*this, node}, node.op);
  }
}

double NaiveNetwork::lossSum() const {
  double total = 0.0;
  for (const auto& [node, loss] : losses_) {
    const auto& op = std::get<SoftmaxLoss>(graph_.nodes[static_cast<std::size_t>(node)].op);
    total += static_cast<double>(op.weight) * loss;
  }
  return total;
}

double NaiveNetwork::objective() const {
  double total = 0.0;
  for (const auto& [node, loss] : losses_) {
    const auto& op = std::get<SoftmaxLoss>(graph_.nodes[static_cast<std::size_t>(node)].op);
    const double divisor =
        op.reduction == SoftmaxLoss::Reduction::Mean ? static_cast<double>(batch_.globalSize) : 1.0;
    total += static_cast<double>(op.weight) * loss / divisor;
  }
  return total;
}

}  // namespace cohort::reference
