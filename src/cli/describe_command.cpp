#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "engine/executor.h"
#include "engine/instruction_set.h"
#include "engine/plan.h"
#include "parallel/partition.h"
#include "report/console.h"
#include "train/layer_table.h"

namespace cohort {
namespace {

std::string countText(std::int64_t count) {
  return count == 0 ? "" : groupedText(count);
}

void printTable(const ExecutionPlan& plan, std::int64_t batchSize) {
  constexpr const char* kColumns = "{:<18}{:<26}{:>14}{:>13}{:>15}{:>10}  {}\n";
  fmt::print(kColumns, "layer", "operator", "output", "parameters", "multiply-adds", "memory",
             "kernels (forward | backward)");
  std::int64_t parameters = 0;
  std::int64_t work = 0;
  double memory = 0;
  for (const LayerRow& row : layerTable(plan)) {
    parameters += row.parameters;
    work += row.multiplyAdds;
    memory += static_cast<double>(row.activationBytes);
    fmt::print(kColumns, row.name, row.operatorText, row.output, countText(row.parameters),
               countText(row.multiplyAdds), bytesText(static_cast<double>(row.activationBytes)), row.kernels);
  }
  fmt::print("\n{} parameters, {} multiply-adds for one image, forward\n", groupedText(parameters),
             groupedText(work));
  const int members = plan.place().count;
  fmt::print("a lane's memory: {} for {}grains of {} (batch {}); all its outputs apart would take {}\n",
             bytesText(static_cast<double>(plan.laneBytes())),
             members > 1 ? fmt::format("rounds of {} ", members) : "", plan.options().grainSize, batchSize,
             bytesText(memory));
  fmt::print("weights in kernel layouts, shared by the lanes: {}\n",
             bytesText(static_cast<double>(plan.preparedBytes())));
}

}  // namespace

int describeCommand(const RunContext& context, const DescribeArguments& arguments) {
  if (arguments.list) {
    for (const std::string& name : context.networks.names()) {
      fmt::print("{:<14}{}\n", name, context.networks.find(name).description);
    }
    return kSuccess;
  }
  const RunConfig config = resolveLayers(context.networks, std::nullopt, arguments.layers, context.rules);
  for (const std::string& note : arguments.notes) fmt::print("note: {}\n", note);
  if (config.imageSize == 0) {
    throw UsageError("the size of the images is not known before the dataset is opened; give --image-size");
  }
  useInstructionSet(config.isa.empty() ? bestInstructionSet() : config.isa);
  singleThreadedKernels();
  const Network network = context.networks.find(config.network);
  if (network.foreign)
    throw UsageError(fmt::format("{} is no graph of layers that could be described", config.network));
  // Left open, they are the dataset's; the recipe's are as good a guess as there is without opening it.
  const std::int64_t classes = config.classes != 0 ? config.classes : network.recipe.classes;
  const Graph graph =
      network.build({config.channels, config.imageSize, config.imageSize}, static_cast<int>(classes));
  const EngineOptions options{.grainSize = config.batchSize / config.grains};
  const Mesh mesh = meshOf(config, static_cast<int>(config.workers));
  if (splitsModel(config) && mesh.model > 1) {
    fmt::print("what the first of {} workers computes ({}; {})\n\n", mesh.workers(),
               toText(strategyOf(config)), toText(mesh));
    printTable(compile(partition(graph, strategyOf(config), {0, mesh.model}), options), config.batchSize);
  } else {
    printTable(compile(graph, options), config.batchSize);
  }
  return kSuccess;
}

}  // namespace cohort
