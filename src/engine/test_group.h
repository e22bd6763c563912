// For tests only: the workers of a group as threads, and rounds of samples for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/float_buffer.h"
#include "comm/thread_transport.h"
#include "engine/executor.h"
#include "parallel/partition.h"
#include "tests/reference/engine_check.h"

namespace cohort {

// Runs work(communicator) as every worker, each on a thread. Messages come in another order for another `disorder`.
inline void asGroup(int members, std::uint32_t disorder, const std::function<void(Communicator&)>& work) {
  ThreadHub hub(members, disorder);
  std::vector<std::unique_ptr<Communicator>> workers;
  for (int rank = 0; rank < members; ++rank)
    workers.push_back(std::make_unique<Communicator>(hub.transport(rank), 60));
  std::vector<std::jthread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&work, &worker] {
      singleThreadedKernels();
      work(*worker);
    });
  }
}

// The samples of a round; behind its grains, padding.
struct Round {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  int members = 1;
  int grains = 1;
  std::int64_t position = 1000;
  std::int64_t globalSize = 0;

  std::int64_t grainSize() const { return std::ssize(labels) / members; }
  Batch whole() const { return {images, labels, position, globalSize, grains}; }
  Batch grain(int index) const {
    const auto size = static_cast<std::size_t>(grainSize());
    const std::size_t pixels = images.size() / labels.size();
    const auto first = static_cast<std::size_t>(index) * size;
    return {std::span(images).subspan(first * pixels, size * pixels), std::span(labels).subspan(first, size),
            position + index * grainSize(), globalSize, grains};
  }
  // As the input of a member's network.
  Batch of(const LocalGraph& local) const {
    return local.graph.grainsIn(0) > 1 ? whole() : grain(local.place.index);
  }
};

inline Round namedRound(std::string_view name, const Graph& graph, int members, std::int64_t grainSize,
                        int grains) {
  const reference::Samples samples = reference::namedSamples(name, graph, members * grainSize);
  Round round{.images = samples.images,
              .labels = samples.labels,
              .members = members,
              .grains = grains,
              .globalSize = 3 * members * grainSize};
  std::fill(round.labels.begin() + grains * grainSize, round.labels.end(), kIgnoredLabel);
  return round;
}

// A worker's lane. Its memory holds NaN before, so that reading what was not written is found.
struct MemberLane {
  MemberLane(const ExecutionPlan& plan, PreparedWeights& weights, const Group& group, int tag = 0,
             std::uint64_t seed = 0)
      : memory(poisoned((plan.laneBytes() + sizeof(float) - 1) / sizeof(float))),
        executor(plan, weights, memory.span(), seed, LanePort{group, tag}) {}

  static FloatBuffer poisoned(std::size_t floats) {
    FloatBuffer buffer(floats);
    std::ranges::fill(buffer.span(), std::numeric_limits<float>::quiet_NaN());
    return buffer;
  }

  FloatBuffer memory;
  Executor executor;
};

}  // namespace cohort
