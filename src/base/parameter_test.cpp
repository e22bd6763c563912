#include "base/parameter.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

ParameterLayout mixedLayout() {
  return ParameterLayout({
      {.name = "fc.weight",
       .shape = {4096, 1027},
       .initializer = Initializer::normal(0.02f),
       .rowsMayFinishApart = true},
      {.name = "fc.bias", .shape = {1027}, .initializer = Initializer::constant(0.1f)},
      {.name = "bn.mean",
       .shape = {7},
       .initializer = Initializer::constant(0.0f),
       .kind = ParameterKind::RunningStatistic,
       .statisticDecay = 0.9f},
      {.name = "conv.weight", .shape = {513, 131, 5, 5}, .initializer = Initializer::uniform(0.3f)},
  });
}

struct Moments {
  double mean = 0;
  double standardDeviation = 0;
};

Moments momentsOf(std::span<const float> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

std::vector<float> initialized(const ParameterLayout& layout, std::uint64_t seed, int threads = 1) {
  std::vector<float> values(layout.size(), -99.0f);
  initialize(layout, seed, values, threads);
  return values;
}

std::span<const float> valuesOf(const ParameterLayout& layout, std::string_view name,
                                const std::vector<float>& values) {
  const Parameter& parameter = layout.at(layout.find(name));
  return std::span(values).subspan(parameter.offset, parameter.size);
}

TEST(ParameterLayout, PlacesParametersOneBehindTheOther) {
  const ParameterLayout layout = mixedLayout();
  std::size_t at = 0;
  for (const Parameter& parameter : layout.parameters()) {
    EXPECT_EQ(parameter.offset, at) << parameter.name;
    EXPECT_EQ(parameter.size, parameter.count()) << parameter.name;
    at += parameter.size;
  }
  EXPECT_EQ(layout.size(), at);
  EXPECT_EQ(layout.weightCount(), at - 7);
}

TEST(ParameterLayout, FindsByName) {
  const ParameterLayout layout = mixedLayout();
  EXPECT_EQ(layout.find("bn.mean"), 2);
  EXPECT_EQ(layout.find("bn"), -1);
}

TEST(ParameterLayout, PiecesTileTheArenaInOrder) {
  const ParameterLayout layout = mixedLayout();
  std::size_t at = 0;
  std::size_t largest = 0;
  for (PieceIndex index = 0; index < static_cast<PieceIndex>(layout.pieces().size()); ++index) {
    const Piece& piece = layout.piece(index);
    const Parameter& parameter = layout.at(piece.parameter);
    EXPECT_EQ(piece.offset, at);
    EXPECT_GE(piece.offset, parameter.offset);
    EXPECT_LE(piece.offset + piece.size, parameter.offset + parameter.size);
    EXPECT_GE(index, parameter.firstPiece);
    EXPECT_LT(index, parameter.firstPiece + parameter.pieceCount);
    at += piece.size;
    largest = std::max(largest, piece.size);
  }
  EXPECT_EQ(at, layout.size());
  EXPECT_EQ(layout.largestPiece(), largest);
}

TEST(ParameterLayout, CutsOnlyLargeMatricesWhoseRowsMayFinishApartAndOnlyBetweenRows) {
  const ParameterLayout layout = mixedLayout();
  const Parameter& matrix = layout.at(layout.find("fc.weight"));
  EXPECT_GT(matrix.pieceCount, 1);
  for (const Piece& piece : layout.pieces().first(static_cast<std::size_t>(matrix.pieceCount))) {
    EXPECT_EQ(piece.size % 1027, 0u);
  }
  EXPECT_EQ(layout.at(layout.find("fc.bias")).pieceCount, 1);
  EXPECT_EQ(layout.at(layout.find("conv.weight")).pieceCount, 1);
}

TEST(Initialize, TheThreadCountDoesNotChangeABit) {
  const ParameterLayout layout = mixedLayout();
  const auto alone = initialized(layout, 5);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(initialized(layout, 5, threads), alone) << threads;
}

TEST(Initialize, DependsOnTheNameNotOnThePlace) {
  const ParameterLayout layout = mixedLayout();
  const ParameterSpec& spec = layout.at(layout.find("conv.weight"));
  const ParameterLayout alone({spec});
  const auto all = initialized(layout, 5);
  EXPECT_TRUE(std::ranges::equal(valuesOf(layout, "conv.weight", all), initialized(alone, 5)));
}

TEST(Initialize, DependsOnTheSeed) {
  const ParameterLayout layout = mixedLayout();
  const auto one = initialized(layout, 1);
  const auto two = initialized(layout, 2);
  EXPECT_NE(valuesOf(layout, "fc.weight", one)[0], valuesOf(layout, "fc.weight", two)[0]);
}

TEST(Initialize, GivesTheAskedMomentsAndBounds) {
  const ParameterLayout layout = mixedLayout();
  const auto values = initialized(layout, 5);
  const auto normal = valuesOf(layout, "fc.weight", values);
  EXPECT_NEAR(momentsOf(normal).mean, 0, 5 * 0.02 / std::sqrt(normal.size()));
  EXPECT_NEAR(momentsOf(normal).standardDeviation, 0.02, 0.02 * 0.003);
  const auto uniform = valuesOf(layout, "conv.weight", values);
  EXPECT_NEAR(momentsOf(uniform).mean, 0, 5 * 0.3 / std::sqrt(3.0 * static_cast<double>(uniform.size())));
  EXPECT_NEAR(momentsOf(uniform).standardDeviation, 0.3 / std::sqrt(3.0), 0.3 * 0.003);
  EXPECT_GE(*std::ranges::min_element(uniform), -0.3f);
  EXPECT_LE(*std::ranges::max_element(uniform), 0.3f);
  for (const float value : valuesOf(layout, "fc.bias", values)) EXPECT_EQ(value, 0.1f);
  for (const float value : valuesOf(layout, "bn.mean", values)) EXPECT_EQ(value, 0.0f);
}

// Four values of a uniform parameter share a block, and chunks are filled apart: no two places may repeat.
TEST(Initialize, RepeatsNothingAcrossChunks) {
  const ParameterLayout layout = mixedLayout();
  const auto values = initialized(layout, 5);
  const auto uniform = valuesOf(layout, "conv.weight", values);
  const std::size_t chunk = std::size_t{1} << 18;
  int equal = 0;
  for (std::size_t i = 0; i + chunk < uniform.size(); ++i) equal += uniform[i] == uniform[i + chunk] ? 1 : 0;
  EXPECT_LT(equal, 10);
}

}  // namespace
}  // namespace cohort
