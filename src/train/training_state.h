// The whole state of a run: its parameters, its optimizer slots, and one integer, the step.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/float_buffer.h"
#include "base/parameter.h"
#include "center/moment.h"
#include "optim/shard.h"
#include "sync/bucket_plan.h"

namespace cohort {

struct TrainingState {
  // Step 0's weights, by the seed; the shards' slots begin there. One worker of several owns only some of the arena.
  TrainingState(ParameterLayout parameters, ShardOptions options, std::span<const ArenaRange> owned,
                std::uint64_t seed, int threads)
      : layout(std::move(parameters)), weights(layout.size()), slots(slotNames(options.optimizer)) {
    initialize(layout, seed, weights.span(), threads);
    for (const ArenaRange& range : owned) {
      options.begin = range.begin;
      options.end = range.end;
      shards.emplace_back(layout, options, weights.span().subspan(range.begin, range.size()));
    }
  }
  // The only worker owns all.
  TrainingState(const ParameterLayout& parameters, const ShardOptions& options, std::uint64_t seed,
                int threads)
      : TrainingState(parameters, options, std::vector<ArenaRange>{{0, parameters.size()}}, seed, threads) {}

  ParameterLayout layout;
  FloatBuffer weights;             // all of them, on every worker
  std::vector<std::string> slots;  // every shard's; a worker may have no slice of a very small network
  std::vector<Shard> shards;
  Step step = 0;          // the next one to compute
  CenterMoment moment{};  // of a center: whose state this is, where that is known

  // Rules with weights of their own: the shard is the whole arena's, and its slots are one worker's.
  struct OwnSlots {
    int rank = 0;
    int size = 1;
    std::vector<ArenaRange> slices;  // of what all have in common, those that this worker writes
  };
  std::optional<OwnSlots> ownSlots{};
  FloatBuffer outer{};  // the outer step's momentum, in these slices; empty where there is none
};

// A hash of all weights (running statistics included) in plain layout and arena order.
std::string weightsHash(std::span<const float> weights);

}  // namespace cohort
