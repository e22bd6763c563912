// Deciding, once: a graph becomes kernels with chosen layouts, and buffers with fixed places.
//
// The words: a *task* is one kernel call with its buffers; tasks run in one fixed order, forward and then
// backward. A *lane* is one thread with its own activations. Buffers that depend on the sample (activations,
// gradients, scratch) belong to a lane and share one block of memory by their lifetimes. Convolution weights
// in the kernels' own layouts are *prepared weights*, one copy for all lanes, refreshed from the plain arena
// when it has changed.
//
// All choices are fixed rules: the same graph, options and instruction set give the same kernels, and so the
// same bits, on every day and for every number of lanes. Every kernel runs on one thread and sees one whole
// grain, or a whole round of them where workers compute a network together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/parameter.h"
#include "graph/graph.h"
#include "parallel/partition.h"

namespace cohort {

struct EngineOptions {
  std::int64_t grainSize = 1;  // samples a kernel sees at once, of each grain where it sees a round
  bool training = true;        // false: forward only, running statistics, no dropout, no auxiliary heads
};

// What was decided for a node, for the layer table.
struct NodeReport {
  NodeId node = 0;
  std::string kernel;  // "jit:avx2 | jit:avx2 | jit:avx2" (forward | backward data | backward weights)
  std::size_t activationBytes = 0;  // of its output: a grain, or a round where it works on one
};

class Program;  // the tasks; engine's own

// Immutable; one for all lanes.
class ExecutionPlan {
 public:
  explicit ExecutionPlan(std::unique_ptr<const Program> program);  // compile() makes it
  ~ExecutionPlan();
  ExecutionPlan(ExecutionPlan&&) noexcept;

  const Program& program() const { return *program_; }
  const Graph& graph() const;
  const ParameterLayout& layout() const;
  const EngineOptions& options() const;
  const GroupPlace& place() const;

  std::size_t laneBytes() const;      // activations, gradients and scratch of one lane
  std::size_t preparedBytes() const;  // weights in kernel layouts, shared by the lanes
  std::vector<NodeReport> nodeReports() const;

 private:
  std::unique_ptr<const Program> program_;
};

ExecutionPlan compile(const Graph& graph, const EngineOptions& options);
// One worker's part of a network that a group computes together.
ExecutionPlan compile(const LocalGraph& local, const EngineOptions& options);

}  // namespace cohort
