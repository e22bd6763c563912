#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/run.h"
#include "engine/executor.h"
#include "engine/instruction_set.h"
#include "engine/plan.h"
#include "report/console.h"

namespace cohort {
namespace {

std::string shapeText(const Shape& shape) {
  return shape.pixels() == 1 ? fmt::format("{}", shape.channels)
                             : fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::string countText(std::int64_t count) {
  return count == 0 ? "" : groupedText(count);
}

void printTable(const ExecutionPlan& plan, std::int64_t batchSize) {
  const Graph& graph = plan.graph();
  fmt::print("{:<18}{:<26}{:>14}{:>13}{:>15}{:>10}  {}\n", "layer", "operator", "output", "parameters",
             "multiply-adds", "memory", "kernels (forward | backward)");
  std::int64_t parameters = 0;
  std::int64_t work = 0;
  double memory = 0;
  for (const NodeReport& report : plan.nodeReports()) {
    const Node& node = graph.nodes[static_cast<std::size_t>(report.node)];
    std::int64_t own = 0;
    for (const ParameterSpec& spec : parametersOf(graph, node)) {
      if (spec.kind == ParameterKind::Weight) own += static_cast<std::int64_t>(spec.count());
    }
    const std::int64_t adds = multiplyAdds(graph, node);
    parameters += own;
    work += adds;
    memory += static_cast<double>(report.activationBytes);
    fmt::print("{:<18}{:<26}{:>14}{:>13}{:>15}{:>10}  {}\n", node.name, describe(node.op),
               shapeText(graph.shapeOf(node.output)), countText(own), countText(adds),
               bytesText(static_cast<double>(report.activationBytes)), report.kernel);
  }
  fmt::print("\n{} parameters, {} multiply-adds for one image, forward\n", groupedText(parameters),
             groupedText(work));
  fmt::print("a lane's memory: {} for grains of {} (batch {}); all its outputs apart would take {}\n",
             bytesText(static_cast<double>(plan.laneBytes())), plan.options().grainSize, batchSize,
             bytesText(memory));
  fmt::print("weights in kernel layouts, shared by the lanes: {}\n",
             bytesText(static_cast<double>(plan.preparedBytes())));
}

}  // namespace

int describeCommand(const NetworkRegistry& networks, const DescribeArguments& arguments) {
  if (arguments.list) {
    for (const std::string& name : networks.names()) {
      fmt::print("{:<14}{}\n", name, networks.find(name).description);
    }
    return kSuccess;
  }
  const RunConfig config = resolveLayers(networks, std::nullopt, arguments.layers);
  for (const std::string& note : arguments.notes) fmt::print("note: {}\n", note);
  useInstructionSet(config.isa.empty() ? bestInstructionSet() : config.isa);
  singleThreadedKernels();
  const Graph graph =
      networks.find(config.network)
          .build({config.channels, config.imageSize, config.imageSize}, static_cast<int>(config.classes));
  printTable(compile(graph, {.grainSize = config.batchSize / config.grains}), config.batchSize);
  return kSuccess;
}

}  // namespace cohort
