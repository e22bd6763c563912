// Parameters are plain: names, shapes and places in one flat float arena, row-major, in backward order (the
// last layer first), so that what a backward pass finishes first lies first.
//
// A *piece* is the unit in which gradients are finished, summed and applied: a whole parameter, or some rows
// of a large matrix. Pieces lie in the arena in order; those of a whole network tile it without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// How step 0 fills a parameter; `scale` is the standard deviation, the half-width or the value.
struct Initializer {
  enum class Kind { Constant, Normal, Uniform };
  Kind kind = Kind::Constant;
  float scale = 0.0f;

  static Initializer constant(float value) { return {Kind::Constant, value}; }
  // A bell-shaped sum of eight 16-bit uniforms (exact arithmetic: the same bits on every machine).
  static Initializer normal(float standardDeviation) { return {Kind::Normal, standardDeviation}; }
  static Initializer uniform(float halfWidth) { return {Kind::Uniform, halfWidth}; }

  bool operator==(const Initializer&) const = default;
};

enum class ParameterKind {
  Weight,           // moved by the optimizer along its gradient
  RunningStatistic  // its "gradient" is the grain's statistic: value <- decay * value + (1 - decay) * mean of
                    // grains
};

// What a model declares.
struct ParameterSpec {
  std::string name;                 // "conv1.weight"
  std::vector<std::int64_t> shape;  // row-major
  Initializer initializer;
  ParameterKind kind = ParameterKind::Weight;
  float statisticDecay = 0.0f;      // RunningStatistic only
  bool rowsMayFinishApart = false;  // a matrix whose gradient is finished in groups of rows (dense layers)

  std::size_t count() const;
  bool operator==(const ParameterSpec&) const = default;
};

using ParameterIndex = int;
using PieceIndex = int;

struct Parameter : ParameterSpec {
  std::size_t offset = 0;  // of its first float in the arena
  std::size_t size = 0;    // floats
  PieceIndex firstPiece = 0;
  int pieceCount = 0;
};

struct Piece {
  ParameterIndex parameter = 0;
  std::size_t offset = 0;  // in the arena
  std::size_t size = 0;    // floats
};

// Floats [begin, end) of the arena.
struct ArenaRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const ArenaRange&) const = default;
};

// Immutable once made; shared freely between threads.
class ParameterLayout {
 public:
  ParameterLayout() = default;
  // `specs` in arena order. Names must differ.
  explicit ParameterLayout(std::vector<ParameterSpec> specs);
  // What a worker computes of a network's parameters: some rows of each, where they lie in the whole network's arena.
  struct Part {
    ParameterSpec spec;  // of these rows
    std::size_t offset = 0;
  };
  // `parts` in arena order; the arena has `size` floats.
  ParameterLayout(std::vector<Part> parts, std::size_t size);

  std::span<const Parameter> parameters() const { return parameters_; }
  std::span<const Piece> pieces() const { return pieces_; }
  const Parameter& at(ParameterIndex index) const { return parameters_[static_cast<std::size_t>(index)]; }
  const Piece& piece(PieceIndex index) const { return pieces_[static_cast<std::size_t>(index)]; }
  // -1 where there is none.
  ParameterIndex find(std::string_view name) const;

  std::size_t size() const { return size_; }  // floats in the arena, statistics included, and gaps
  std::size_t weightCount() const { return weightCount_; }    // floats the optimizer moves
  std::size_t largestPiece() const { return largestPiece_; }  // floats

 private:
  void add(Part part);

  std::vector<Parameter> parameters_;
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::size_t weightCount_ = 0;
  std::size_t largestPiece_ = 0;
};

// Fills `values` (layout.size() floats) with step 0's values: a function of the seed and the names alone.
// Uses up to `threads` threads; their number does not change a bit.
void initialize(const ParameterLayout& layout, std::uint64_t seed, std::span<float> values, int threads = 1);

}  // namespace cohort
