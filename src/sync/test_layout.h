// For tests only: parameters of random sizes.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/parameter.h"

namespace cohort {

// Up to six, each of up to `largest` floats.
inline ParameterLayout someLayout(std::mt19937& random, int largest) {
  std::vector<ParameterSpec> specs(1 + random() % 6);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i] = {.name = "p" + std::to_string(i),
                .shape = {1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(largest))},
                .initializer = Initializer::uniform(1)};
  }
  return ParameterLayout(specs);
}

}  // namespace cohort
