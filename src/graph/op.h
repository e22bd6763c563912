// Operators as values: what to compute, never how. A shape is one sample's; the batch is the engine's
// business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/parameter.h"

namespace cohort {

struct Shape {
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t pixels() const { return height * width; }
  std::int64_t count() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};

// Height and width; an int means both.
struct Extent {
  int height = 1;
  int width = 1;

  Extent() = default;
  Extent(int both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor): `.kernel = 3`
  Extent(int h, int w) : height(h), width(w) {}
  bool operator==(const Extent&) const = default;
};

struct Padding {
  enum class Kind { Valid, Same, Explicit };
  Kind kind = Kind::Valid;
  int top = 0, left = 0, bottom = 0, right = 0;  // Explicit only

  static Padding valid() { return {}; }
  // The output is the input divided by the stride, rounded up; an odd rest goes to the bottom and the right.
  static Padding same() { return {.kind = Kind::Same}; }
  static Padding all(int amount) { return {Kind::Explicit, amount, amount, amount, amount}; }
  static Padding sides(int top, int left, int bottom, int right) {
    return {Kind::Explicit, top, left, bottom, right};
  }
  bool operator==(const Padding&) const = default;
};

// Weight [outputs, inputs / groups, kernel height, kernel width], bias [outputs].
struct Conv {
  int outputs = 0;
  Extent kernel = 1;
  Extent stride = 1;
  Padding padding = Padding::valid();
  int groups = 1;
  bool bias = true;
  std::optional<Initializer> weightInit = {};  // default: normal, standard deviation sqrt(2 / fan-in)
  float biasInit = 0.0f;
  bool operator==(const Conv&) const = default;
};

// Weight [outputs, inputs], bias [outputs]. The input is flat.
struct Dense {
  int outputs = 0;
  bool bias = true;
  std::optional<Initializer> weightInit = {};  // default: uniform with the variance 2 / fan-in
  float biasInit = 0.0f;
  bool operator==(const Dense&) const = default;
};

struct Pool {
  enum class Kind { Max, Average };
  Kind kind = Kind::Max;
  Extent kernel = 2;
  Extent stride = 2;
  Padding padding = Padding::valid();
  bool global = false;        // the kernel is the whole image; kernel, stride and padding are not used
  bool countPadding = false;  // Average: padding counts in the divisor
  bool roundUp = false;       // a last, partly outside window counts too ("ceil mode")
  bool operator==(const Pool&) const = default;
};

struct Relu {
  bool operator==(const Relu&) const = default;
};

// y = x / (bias + alpha * sum of squares over `size` neighbouring channels) ^ beta. Frameworks that divide
// alpha by the size write alpha / size here.
struct Lrn {
  int size = 5;
  float bias = 1.0f;
  float alpha = 1e-4f;
  float beta = 0.75f;
  bool operator==(const Lrn&) const = default;
};

// Parameters: weight, bias, running_mean, running_var [channels]. Statistics are one grain's; the running
// variance gathers the unbiased one.
struct BatchNorm {
  float epsilon = 1e-5f;
  float decay = 0.997f;
  bool operator==(const BatchNorm&) const = default;
};

// Kept elements are divided by (1 - rate) while training; nothing happens in evaluation.
struct Dropout {
  float rate = 0.5f;
  std::int64_t firstChannel =
      0;  // of the whole layer, where a worker has only some: elements are counted from there
  bool operator==(const Dropout&) const = default;
};

// Along channels.
struct Concat {
  bool operator==(const Concat&) const = default;
};

// Inputs with fewer channels than the first count as zero in the missing ones, the last (ResNet's shortcut
// A).
struct Add {
  bool operator==(const Add&) const = default;
};

// To {channels * height * width, 1, 1}, channels slowest.
struct Flatten {
  bool operator==(const Flatten&) const = default;
};

// Softmax cross-entropy of flat logits with the batch's labels. A graph may have several; the last one counts
// right answers.
struct SoftmaxLoss {
  enum class Reduction { Mean, Sum };  // over the samples of the whole step
  Reduction reduction = Reduction::Mean;
  float weight = 1.0f;
  bool evaluated = true;  // false: an auxiliary head that exists in training only
  bool operator==(const SoftmaxLoss&) const = default;
};

// Channels [first, last) of a whole value.
struct ChannelRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t count() const { return last - first; }
  bool operator==(const ChannelRange&) const = default;
};

// Where a value is, when the workers of a group compute a network together: they work on a *round*, one grain for each of
// them. A worker has its own grain's samples or the whole round's, and some channels or all.
struct Spread {
  enum class Samples { Own, Round };
  Samples samples = Samples::Own;
  // By worker; in the order in which they lie there.
  std::vector<std::vector<ChannelRange>> channels;

  // Every worker has those of every other.
  bool hasSameChannels() const;
  bool operator==(const Spread&) const = default;
};

// The same value in another spread: every worker sends what others need. Gather, split, and all-to-all are cases of it, and
// its gradient is the way back, where what a worker has given to several is summed (reduce-scatter), in the order of the workers.
struct Redistribute {
  Spread from;
  Spread to;
  bool operator==(const Redistribute&) const = default;
};

using Op = std::variant<Conv, Dense, Pool, Relu, Lrn, BatchNorm, Dropout, Concat, Add, Flatten, SoftmaxLoss,
                        Redistribute>;

// "conv 3x3/2 64", "max-pool 2/2": for tables and messages.
std::string describe(const Op& op);

}  // namespace cohort
