// The numbers that golden runs begin with: weights, images and labels as a function of a tensor's name and an
// element's index, computed without rounding that could differ between machines or languages. README.md has the
// formula; make_golden.py is the other side.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/batch.h"
#include "base/error.h"
#include "base/parameter.h"

namespace cohort::golden {

// FNV-1a, 32 bits.
inline std::uint32_t nameHash(std::string_view name) {
  std::uint32_t value = 0x811C9DC5u;
  for (const char letter : name) value = (value ^ static_cast<unsigned char>(letter)) * 0x01000193u;
  return value;
}

// Of element `index` of a tensor whose name has the hash `name`.
inline std::uint32_t formulaHash(std::uint32_t name, std::uint64_t index) {
  std::uint32_t z = static_cast<std::uint32_t>(index + 1) * 0x9E3779B9u + name;
  z = (z ^ (z >> 16)) * 0x85EBCA6Bu;
  z = (z ^ (z >> 13)) * 0xC2B2AE35u;
  return z ^ (z >> 16);
}
inline std::uint32_t formulaHash(std::string_view tensorName, std::uint64_t index) {
  return formulaHash(nameHash(tensorName), index);
}

// In [-0.5, 0.5), a multiple of 2^-24: exact in a float.
inline float formulaValue(std::uint32_t name, std::uint64_t index) {
  return static_cast<float>(formulaHash(name, index) >> 8) * 0x1p-24f - 0.5f;
}
inline float formulaValue(std::string_view tensorName, std::uint64_t index) {
  return formulaValue(nameHash(tensorName), index);
}

// values[i] = offset + scale * formulaValue(tensorName, i)
inline void fillFormula(std::string_view tensorName, float scale, float offset, std::span<float> values) {
  const std::uint32_t name = nameHash(tensorName);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = offset + formulaValue(name, i) * scale;
}

inline void fillParameter(const ParameterLayout& layout, const Parameter& parameter,
                          std::span<float> values) {
  const std::string& name = parameter.name;
  const std::string node = name.substr(0, name.rfind('.'));
  const bool isBias = name.ends_with(".bias");
  if (parameter.kind == ParameterKind::RunningStatistic) {
    for (float& value : values) value = name.ends_with(".running_var") ? 1.0f : 0.0f;
  } else if (layout.find(node + ".running_mean") >= 0) {  // a batch norm
    fillFormula(name, 0.2f, 1.0f, values);
  } else if (isBias) {
    fillFormula(name, 0.1f, 0.0f, values);
  } else {  // He: the variance is 2 / fan-in
    const double fanIn = static_cast<double>(parameter.size) / static_cast<double>(parameter.shape.front());
    fillFormula(name, static_cast<float>(std::sqrt(24.0 / fanIn)), 0.0f, values);
  }
}

// The whole arena of `layout`.
inline void fillParameters(const ParameterLayout& layout, std::span<float> arena) {
  COHORT_CHECK(arena.size() == layout.size(), "the arena does not fit the layout");
  for (const Parameter& parameter : layout.parameters()) {
    fillParameter(layout, parameter, arena.subspan(parameter.offset, parameter.size));
  }
}

// The step's images [batch, channels, height, width], in [-1, 1).
inline void fillImages(Step step, std::span<float> images) {
  fillFormula("images/" + std::to_string(step), 2.0f, 0.0f, images);
}

inline void fillLabels(Step step, int classes, std::span<std::int32_t> labels) {
  const std::uint32_t name = nameHash("labels/" + std::to_string(step));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int32_t>(formulaHash(name, i) % static_cast<std::uint32_t>(classes));
  }
}

}  // namespace cohort::golden
