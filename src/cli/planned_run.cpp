#include "cli/planned_run.h"

#include <algorithm>
#include <optional>

#include "engine/executor.h"
#include "engine/instruction_set.h"
#include "engine/plan.h"
#include "graph/graph.h"
#include "optim/parse.h"
#include "optim/shard.h"
#include "parallel/partition.h"

namespace cohort {
namespace {

// The program and its libraries, samples that are read ahead, buffers of messages.
constexpr std::int64_t kBaseBytes = 150'000'000;
constexpr std::int64_t kGradients = 2;  // arenas, as sums of grains meet in their tree

std::optional<Graph> graphOf(const RunContext& context, const RunConfig& config) {
  const Network network = context.networks.find(config.network);
  if (network.foreign || config.imageSize == 0) return std::nullopt;
  // Left open, they are the dataset's; the recipe's are as good a guess as there is without opening it.
  const std::int64_t classes = config.classes != 0 ? config.classes : network.recipe.classes;
  return network.build({config.channels, config.imageSize, config.imageSize}, static_cast<int>(classes));
}

// Every worker has all weights and the sums of its gradients, and its share of the slots.
std::int64_t arenaBytes(const Graph& graph, const RunConfig& config) {
  const auto bytes = static_cast<std::int64_t>(parameterLayout(graph).size() * sizeof(float));
  const auto slots = static_cast<std::int64_t>(
      slotNames({.kind = parseOptimizer(config.optimizer), .averageDecay = config.averageDecay}).size());
  return (1 + kGradients) * bytes + slots * bytes / std::max<std::int64_t>(config.workers, 1);
}

PlannedRun planWith(const std::optional<Graph>& graph, const RunConfig& config) {
  PlannedRun plan{.isGiven = true, .instructionSet = config.isa, .lanes = static_cast<int>(config.threads)};
  if (!graph) return plan;
  plan.workerBytes = kBaseBytes + arenaBytes(*graph, config);
  // Its part of every gradient goes to its owner, and the new weights come back.
  if (config.workers > 1) {
    plan.gradientBytes = static_cast<std::int64_t>(parameterLayout(*graph).size() * sizeof(float));
  }
  return plan;
}

}  // namespace

PlannedRun roughPlan(const RunContext& context, const RunConfig& config) {
  return planWith(graphOf(context, config), config);
}

PlannedRun compiledPlan(const RunContext& context, const RunConfig& config, int lanes) {
  const std::optional<Graph> graph = graphOf(context, config);
  PlannedRun plan = planWith(graph, config);
  if (!graph) return plan;
  useInstructionSet(config.isa.empty() ? bestInstructionSet() : config.isa);
  singleThreadedKernels();
  const EngineOptions options{.grainSize = config.batchSize / config.grains};
  const Mesh mesh = meshOf(config, static_cast<int>(config.workers));
  const ExecutionPlan compiled =
      splitsModel(config) && mesh.model > 1
          ? compile(partition(*graph, strategyOf(config), {0, mesh.model}), options)
          : compile(*graph, options);
  plan.workerBytes += static_cast<std::int64_t>(compiled.preparedBytes()) +
                      static_cast<std::int64_t>(compiled.laneBytes()) * lanes;
  return plan;
}

}  // namespace cohort
