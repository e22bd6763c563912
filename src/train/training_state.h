// The whole state of a run: its parameters, its optimizer slots, and one integer, the step.
#pragma once

#include <memory>
#include <string>

#include "base/float_buffer.h"
#include "base/parameter.h"
#include "optim/shard.h"

namespace cohort {

struct TrainingState {
  // Step 0's weights, by the seed; the shard's slots begin there.
  TrainingState(ParameterLayout parameters, const ShardOptions& options, std::uint64_t seed, int threads)
      : layout(std::move(parameters)), weights(layout.size()) {
    initialize(layout, seed, weights.span(), threads);
    shard = std::make_unique<Shard>(layout, options, weights.span());
  }

  ParameterLayout layout;
  FloatBuffer weights;
  std::unique_ptr<Shard> shard;
  Step step = 0;  // the next one to compute
};

// A hash of all weights (running statistics included) in plain layout and arena order.
std::string weightsHash(std::span<const float> weights);

}  // namespace cohort
