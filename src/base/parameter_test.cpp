#include "base/parameter.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::vector<ParameterSpec> mixedSpecs() {
  return {
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
  };
}

ParameterLayout mixedLayout() {
  return ParameterLayout(mixedSpecs());
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

// What a worker has of mixedLayout(): rows 1024 to 2047 of the matrix, some of the bias, no statistic, and the last filters. The
// matrix is 4096 x 1027 at 0, the bias at 4206592, the statistic at 4207619, the filters 513 x 131 x 5 x 5 at 4207626.
constexpr std::size_t kWhole = 4207626 + std::size_t{513} * 131 * 25;

std::vector<ParameterLayout::Part> someParts() {
  const std::vector<ParameterSpec> specs = mixedSpecs();
  const auto part = [&](std::size_t index, std::int64_t rows, std::size_t offset) {
    ParameterLayout::Part cut{.spec = specs[index], .offset = offset};
    cut.spec.shape.front() = rows;
    return cut;
  };
  return {part(0, 1024, 1024 * 1027), part(1, 100, 4206692), part(3, 13, kWhole - 13 * 131 * 25)};
}

TEST(ParameterParts, LieWhereTheyAreInTheWholeArena) {
  ASSERT_EQ(mixedLayout().size(), kWhole);
  const ParameterLayout layout(someParts(), kWhole);
  ASSERT_EQ(layout.parameters().size(), 3U);
  EXPECT_EQ(layout.size(), kWhole) << "gaps included";
  EXPECT_EQ(layout.weightCount(), 1024U * 1027 + 100 + 13 * 131 * 25);
  EXPECT_EQ(layout.find("fc.bias"), 1);
  EXPECT_EQ(layout.find("bn.mean"), -1);
  EXPECT_EQ(layout.at(0).offset, 1024U * 1027);
  EXPECT_EQ(layout.at(0).size, 1024U * 1027);
  EXPECT_EQ(layout.at(1).offset, 4206692U);
  EXPECT_EQ(layout.at(1).size, 100U);
  EXPECT_EQ(layout.at(2).offset + layout.at(2).size, kWhole);
  EXPECT_TRUE(layout.at(0).rowsMayFinishApart);
  EXPECT_EQ(ParameterLayout({someParts().front()}, kWhole).size(), kWhole)
      << "the gap behind the last part too";
}

TEST(ParameterParts, HavePiecesOfTheirOwnRows) {
  std::vector<ParameterLayout::Part> parts = someParts();
  parts.front().spec.shape.front() = 2500;  // large enough to be finished in pieces, the last of them smaller
  const ParameterLayout layout(std::move(parts), kWhole);
  ASSERT_EQ(layout.pieces().size(), 7U);
  ASSERT_EQ(layout.at(0).pieceCount, 5);
  for (PieceIndex piece = 0; piece < 5; ++piece) {
    EXPECT_EQ(layout.piece(piece).parameter, 0);
    EXPECT_EQ(layout.piece(piece).offset, (1024U + 512 * static_cast<std::size_t>(piece)) * 1027);
    EXPECT_EQ(layout.piece(piece).size, (piece < 4 ? 512U : 452U) * 1027);
  }
  EXPECT_EQ(layout.piece(5).offset, 4206692U);
  EXPECT_EQ(layout.piece(6).size, 13U * 131 * 25);
  EXPECT_EQ(layout.at(2).firstPiece, 6);
  EXPECT_EQ(layout.largestPiece(), 512U * 1027);
}

TEST(ParameterParts, OfEverythingAreTheWholeLayout) {
  const ParameterLayout whole = mixedLayout();
  std::vector<ParameterLayout::Part> parts;
  for (const ParameterSpec& spec : mixedSpecs())
    parts.push_back({spec, whole.at(whole.find(spec.name)).offset});
  const ParameterLayout layout(parts, whole.size());
  EXPECT_EQ(layout.weightCount(), whole.weightCount());
  EXPECT_EQ(layout.largestPiece(), whole.largestPiece());
  ASSERT_EQ(layout.pieces().size(), whole.pieces().size());
  for (std::size_t piece = 0; piece < whole.pieces().size(); ++piece) {
    EXPECT_EQ(layout.pieces()[piece].offset, whole.pieces()[piece].offset);
    EXPECT_EQ(layout.pieces()[piece].size, whole.pieces()[piece].size);
  }
}

TEST(ParameterParts, LieInOrderAndInTheArena) {
  std::vector<ParameterLayout::Part> parts = someParts();
  EXPECT_DEATH(ParameterLayout(parts, kWhole - 1), "a part lies in the arena");
  parts[1].offset = parts[0].offset + parts[0].spec.count() - 1;
  EXPECT_DEATH(ParameterLayout(parts, kWhole), "parameters lie in order");
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
