#include "graph/op.h"

#include <algorithm>

#include <fmt/format.h>

namespace cohort {
namespace {

std::string text(Extent e) {
  return e.height == e.width ? fmt::format("{}", e.height) : fmt::format("{}x{}", e.height, e.width);
}

std::string text(const Padding& padding) {
  switch (padding.kind) {
    case Padding::Kind::Valid:
      return "";
    case Padding::Kind::Same:
      return " same";
    case Padding::Kind::Explicit:
      break;
  }
  if (padding.top == padding.left && padding.top == padding.bottom && padding.top == padding.right) {
    return padding.top == 0 ? "" : fmt::format(" pad {}", padding.top);
  }
  return fmt::format(" pad {},{},{},{}", padding.top, padding.left, padding.bottom, padding.right);
}

// "samples", "copies" or "channels": what a worker has of a value.
const char* text(const Spread& spread) {
  if (!spread.hasSameChannels()) return "channels";
  return spread.samples == Spread::Samples::Own ? "samples" : "copies";
}

struct Describer {
  std::string operator()(const Conv& op) const {
    return fmt::format("conv {}x{}/{}{} {}{}", op.kernel.height, op.kernel.width, text(op.stride),
                       text(op.padding), op.outputs,
                       op.groups > 1 ? fmt::format(" groups {}", op.groups) : "");
  }
  std::string operator()(const Dense& op) const { return fmt::format("dense {}", op.outputs); }
  std::string operator()(const Pool& op) const {
    const char* kind = op.kind == Pool::Kind::Max ? "max-pool" : "average-pool";
    return op.global ? fmt::format("global {}", kind)
                     : fmt::format("{} {}/{}{}", kind, text(op.kernel), text(op.stride), text(op.padding));
  }
  std::string operator()(const Relu&) const { return "relu"; }
  std::string operator()(const Lrn& op) const { return fmt::format("lrn {}", op.size); }
  std::string operator()(const BatchNorm&) const { return "batch norm"; }
  std::string operator()(const Dropout& op) const { return fmt::format("dropout {:g}", op.rate); }
  std::string operator()(const Concat&) const { return "concat"; }
  std::string operator()(const Add&) const { return "add"; }
  std::string operator()(const Flatten&) const { return "flatten"; }
  std::string operator()(const SoftmaxLoss& op) const {
    return op.weight == 1.0f ? "softmax loss" : fmt::format("softmax loss x{:g}", op.weight);
  }
  std::string operator()(const Redistribute& op) const {
    return fmt::format("{} to {}", text(op.from), text(op.to));
  }
};

}  // namespace

bool Spread::hasSameChannels() const {
  return std::ranges::all_of(channels, [&](const auto& ranges) { return ranges == channels.front(); });
}

std::string describe(const Op& op) {
  return std::visit(Describer{}, op);
}

}  // namespace cohort
