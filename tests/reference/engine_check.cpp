#include "tests/reference/engine_check.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <ostream>

#include <gtest/gtest.h>

#include "base/float_buffer.h"
#include "base/hash.h"
#include "base/philox.h"
#include "engine/executor.h"
#include "engine/plan.h"
#include "tests/reference/naive_network.h"

namespace cohort::reference {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t kSeed = 17;

// Single precision has 6e-8 per operation; sums of some hundred terms of either sign reach about 1e-6
// relative to the loss. A wrong term is far above.
constexpr double kLossTolerance = 1e-5;

// Finite differences in double precision: the loss is about 1 with round-off 1e-16 times some hundred
// operations, so dividing by 2e-6 leaves about 1e-8 of round-off, and truncation (1e-12) is less. A smaller
// step would be as good; a larger one would meet more kinks of ReLU and max pooling on its way.
constexpr double kDifference = 1e-6;

// The engine's gradient is single precision: its error is some 1e-6 of the largest terms that are summed, and
// these are of the size of the parameter's largest gradients. Where everything cancels (a bias in front of a
// batch norm) the terms are of the size of other parameters' gradients, hence the second scale.
constexpr double kGradientTolerance = 1e-4;
constexpr double kCancellationScale = 1e-2;

double largestMagnitude(std::span<const float> values) {
  double largest = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

// Multiply-adds for the finite differences of one network. Sanitizers make them ten times slower and learn nothing
// from more of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kArithmetic = 1e6;
#else
constexpr double kArithmetic = 3e7;
#endif

// As many elements of each parameter as a fixed amount of arithmetic allows.
std::size_t elementsToCheck(const Graph& graph, std::size_t parameters, std::int64_t samples) {
  double forward = 0.0;
  for (const Node& node : graph.nodes) {
    forward +=
        static_cast<double>((multiplyAdds(graph, node) + graph.shapeOf(node.output).count()) * samples);
  }
  const double affordable = kArithmetic / (2.0 * forward * static_cast<double>(parameters));
  return static_cast<std::size_t>(std::clamp(affordable, 2.0, 24.0));
}

double finiteDifference(NaiveNetwork& naive, std::size_t offset, NodeId node) {
  double& value = naive.parameter(offset);
  const double original = value;
  value = original + kDifference;
  naive.run(node);
  const double above = naive.objective();
  value = original - kDifference;
  naive.run(node);
  const double below = naive.objective();
  value = original;
  naive.run(node);
  return (above - below) / (2.0 * kDifference);
}

void expectGradients(const Graph& graph, NaiveNetwork& naive, std::span<const float> gradient,
                     std::int64_t samples) {
  const std::span<const Parameter> parameters = naive.layout().parameters();
  const std::size_t elements = elementsToCheck(graph, parameters.size(), samples);
  const double overall = largestMagnitude(gradient);
  ParameterIndex number = -1;
  for (const Parameter& parameter : parameters) {
    ++number;
    if (parameter.kind != ParameterKind::Weight) continue;
    const auto mine = gradient.subspan(parameter.offset, parameter.size);
    const double scale = std::max(largestMagnitude(mine), kCancellationScale * overall);
    const std::size_t checked = std::min(elements, parameter.size);
    const std::uint64_t start = hashName(parameter.name) % parameter.size;
    for (std::size_t i = 0; i < checked; ++i) {
      // Spread over the parameter, at places without a pattern of their own.
      const std::size_t element =
          checked == parameter.size ? i : (start + i * parameter.size / checked + i * i) % parameter.size;
      const double expected = finiteDifference(naive, parameter.offset + element, naive.reader(number));
      EXPECT_NEAR(mine[element], expected, kGradientTolerance * scale)
          << "gradient of " << parameter.name << "[" << element << "], scale " << scale;
    }
  }
}

void expectStatistics(const NaiveNetwork& naive, std::span<const float> gradient) {
  for (const auto& [name, expected] : naive.statistics()) {
    const Parameter& parameter = naive.layout().at(naive.layout().find(name));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(gradient[parameter.offset + i], expected[i], 1e-5 * (1.0 + std::abs(expected[i])))
          << name << "[" << i << "]";
    }
  }
}

// One sample and one label at a time: together these are the logits, up to a constant of each sample.
void expectEvaluation(const Graph& graph, std::span<const float> parameters, Samples samples) {
  const std::vector<std::int32_t> labels(samples.labels.size(), kIgnoredLabel);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    for (std::int32_t label = 0; label < graph.classes; ++label) {
      samples.labels = labels;
      samples.labels[n] = label;
      const NaiveNetwork naive(graph, parameters, samples.batch(), {.training = false});
      const LossSum loss = runEngine(graph, parameters, samples.batch(), false).loss;
      EXPECT_NEAR(loss.loss, naive.lossSum(), kLossTolerance * (1.0 + naive.lossSum()))
          << "evaluation of sample " << n << ", label " << label;
      EXPECT_EQ(loss.samples, 1);
    }
  }
}

void poison(std::span<float> memory) {
  std::ranges::fill(memory, kNaN);
}

}  // namespace

std::vector<float> namedValues(std::string_view name, std::size_t count) {
  const PhiloxKey key = philoxKey(kSeed, hashName(name));
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 2.0f * uniformFloat(philox(key, {static_cast<std::uint32_t>(i), 0, 0, 0})[0]) - 1.0f;
  }
  return values;
}

Samples namedSamples(std::string_view name, const Graph& graph, std::int64_t count) {
  Samples samples;
  samples.images = namedValues(name, static_cast<std::size_t>(count * graph.input.count()));
  for (std::int64_t n = 0; n < count; ++n) {
    samples.labels.push_back(static_cast<std::int32_t>((n * 2 + 1) % graph.classes));
  }
  samples.position = 1000;
  return samples;
}

std::vector<float> variedParameters(const Graph& graph) {
  const ParameterLayout layout = parameterLayout(graph);
  std::vector<float> values(layout.size());
  initialize(layout, kSeed, values);
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.initializer.kind != Initializer::Kind::Constant) continue;
    const std::vector<float> varied = namedValues(parameter.name, parameter.size);
    for (std::size_t i = 0; i < parameter.size; ++i) values[parameter.offset + i] += 0.5f * varied[i];
  }
  return values;
}

RecordingSink::RecordingSink(const ParameterLayout& layout)
    : layout_(layout),
      gradient_(layout.size(), kNaN),
      opened_(layout.pieces().size(), 0),
      closed_(layout.pieces().size(), 0) {}

std::span<float> RecordingSink::open(PieceIndex piece) {
  EXPECT_EQ(current_, -1) << "two pieces are open at once";
  current_ = piece;
  ++opened_[static_cast<std::size_t>(piece)];
  const auto place = std::span(gradient_).subspan(layout_.piece(piece).offset, layout_.piece(piece).size);
  poison(place);
  return place;
}

void RecordingSink::close(PieceIndex piece) {
  EXPECT_EQ(current_, piece) << "a piece is closed that is not open";
  current_ = -1;
  ++closed_[static_cast<std::size_t>(piece)];
}

void RecordingSink::expectComplete() const {
  for (std::size_t piece = 0; piece < opened_.size(); ++piece) {
    const Piece& one = layout_.pieces()[piece];
    const std::string& name = layout_.at(one.parameter).name;
    EXPECT_EQ(opened_[piece], 1) << "piece " << piece << " of " << name;
    EXPECT_EQ(closed_[piece], 1) << "piece " << piece;
    // Between parts of a network's parameters there are gaps.
    EXPECT_TRUE(std::ranges::all_of(gradient().subspan(one.offset, one.size),
                                    [](float value) { return std::isfinite(value); }))
        << "a gradient of " << name << " is not finite, or was not written";
  }
}

EngineResult runEngine(const Graph& graph, std::span<const float> parameters, const Batch& batch,
                       bool training, std::uint64_t seed) {
  singleThreadedKernels();
  const ExecutionPlan plan = compile(graph, {.grainSize = batch.size(), .training = training});
  PreparedWeights prepared(plan, parameters);
  prepared.refresh({});
  FloatBuffer memory((plan.laneBytes() + sizeof(float) - 1) / sizeof(float));
  poison(memory.span());
  Executor executor(plan, prepared, memory.span(), seed);
  EngineResult result{.loss = executor.forward(batch), .gradient = {}};
  if (training) {
    RecordingSink sink(plan.layout());
    executor.backward(sink);
    sink.expectComplete();
    result.gradient.assign(sink.gradient().begin(), sink.gradient().end());
  }
  return result;
}

Graph networkAround(const Shape& shape, const Body& body) {
  constexpr int kClasses = 3;
  ModelBuilder b({.channels = 2, .height = shape.height, .width = shape.width}, kClasses);
  const ValueId front = b.conv("front", b.input(), {.outputs = static_cast<int>(shape.channels)});
  b.softmaxLoss("loss", b.dense("logits", body(b, front), {.outputs = kClasses}));
  return b.build();
}

// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const NetworkCase& network, std::ostream* stream) {
  *stream << network.name;
}

std::string caseName(const testing::TestParamInfo<NetworkCase>& info) {
  std::string name = info.param.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

void expectMatchesReference(const NetworkCase& network) {
  const std::vector<float> parameters = variedParameters(network.graph);
  const Samples samples = namedSamples(network.name, network.graph, network.samples);
  NaiveNetwork naive(network.graph, parameters, samples.batch(), {.training = true, .seed = kSeed});
  const EngineResult engine = runEngine(network.graph, parameters, samples.batch(), true, kSeed);
  EXPECT_NEAR(engine.loss.loss, naive.lossSum(), kLossTolerance * naive.lossSum()) << "training loss";
  EXPECT_EQ(engine.loss.samples, network.samples);
  expectStatistics(naive, engine.gradient);
  expectGradients(network.graph, naive, engine.gradient, network.samples);
  expectEvaluation(network.graph, parameters, samples);
}

}  // namespace cohort::reference
