// Runs small networks through the engine and compares them with NaiveNetwork: the loss, every gradient (by
// finite differences), batch-norm statistics, and the evaluation plan.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/batch.h"
#include "base/trainable.h"
#include "graph/graph.h"
#include "graph/model_builder.h"

namespace cohort::reference {

// Fixed numbers in [-1, 1) that a name chooses.
std::vector<float> namedValues(std::string_view name, std::size_t count);

// One grain of a step of three grains.
struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::int64_t position = 0;

  Batch batch() const { return {images, labels, position, static_cast<std::int64_t>(3 * labels.size())}; }
};
Samples namedSamples(std::string_view name, const Graph& graph, std::int64_t count);

// As step 0, but with nothing constant: biases, scales and running statistics vary too.
std::vector<float> variedParameters(const Graph& graph);

// Keeps a whole gradient, and expects each piece to be opened and closed once, one at a time. Opened memory
// holds NaN, so what a kernel forgets to write is found.
class RecordingSink : public GradientSink {
 public:
  explicit RecordingSink(const ParameterLayout& layout);

  std::span<float> open(PieceIndex piece) override;
  void close(PieceIndex piece) override;
  void expectComplete() const;
  std::span<const float> gradient() const { return gradient_; }

 private:
  const ParameterLayout& layout_;
  std::vector<float> gradient_;
  std::vector<int> opened_, closed_;  // by piece
  PieceIndex current_ = -1;
};

struct EngineResult {
  LossSum loss;
  std::vector<float> gradient;  // as the parameter layout; empty in evaluation
};
// Compiles and runs one grain. The lane's memory holds NaN before, so that reading what was not written is
// found.
EngineResult runEngine(const Graph& graph, std::span<const float> parameters, const Batch& batch,
                       bool training, std::uint64_t seed = 0);

// image -> 1x1 convolution "front" to shape.channels -> body -> dense -> softmax loss of three classes. The
// front convolution's gradient tells whether the body's input gradient is right.
using Body = std::function<ValueId(ModelBuilder&, ValueId)>;
Graph networkAround(const Shape& shape, const Body& body);

struct NetworkCase {
  std::string name;
  Graph graph;
  std::int64_t samples = 2;
};
// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest calls
void PrintTo(const NetworkCase& network, std::ostream* stream);
std::string caseName(
    const testing::TestParamInfo<NetworkCase>& info);  // with only letters, digits and underscores

// All comparisons, in GoogleTest's expectations.
void expectMatchesReference(const NetworkCase& network);

}  // namespace cohort::reference
