#include "train/divided_run.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "train/run_setup.h"
#include "train/same_configuration.h"

namespace cohort {
namespace {

// The least of all workers' numbers.
int leastOf(const Channel& workers, int number, const std::string& what) {
  int least = number;
  for (const std::string& text : workers.gather(std::to_string(number), what))
    least = std::min(least, std::stoi(text));
  return std::stoi(workers.broadcast(std::to_string(least), what));
}

}  // namespace

DividedRun divide(const Graph& graph, const Division& division, int grains) {
  const Mesh& mesh = division.mesh;
  std::vector<DividedPlan::Member> members;
  LocalGraph own;
  for (int member = 0; member < mesh.model; ++member) {
    LocalGraph local = partition(graph, division.strategy, {member, mesh.model});
    members.push_back({local.layout, local.isPrivate});
    if (member == division.member()) own = std::move(local);
  }
  return {.division = division,
          .local = std::move(own),
          .plan = DividedPlan(members, mesh.data, division.rank),
          .rounds = Rounds(grains, division)};
}

std::unique_ptr<DividedRun> divideRun(const RunContext& context, const RunConfig& config,
                                      const Channel& workers, int threads) {
  requireSameConfiguration(workers, config);
  const int size = workers.workers().size();
  const Mesh mesh = meshOf(config, size);
  if (!splitsModel(config)) return nullptr;
  const std::optional<Graph> graph = graphOf(context, config);
  COHORT_CHECK(graph.has_value(), "somebody's own code is not divided");
  Division division{.strategy = strategyOf(config), .mesh = mesh, .rank = workers.workers().rank()};
  requireDivisible(*graph, division.strategy, mesh.model);
  if (mesh.model == 1 || !isDivided(*graph, division.strategy)) return nullptr;
  auto divided = std::make_unique<DividedRun>(divide(*graph, division, static_cast<int>(config.grains)));
  divided->lanes = std::min(leastOf(workers, threads, "its number of threads"), divided->rounds.count());
  return divided;
}

std::vector<std::string> notesOf(const DividedRun& run, const RunConfig& config) {
  const Mesh& mesh = run.division.mesh;
  std::vector<std::string> notes{
      fmt::format("layers are divided ({}; {}): the weights depend on the division, if only by rounding; "
                  "--parallel data gives the "
                  "same for any number of workers",
                  toText(run.division.strategy), toText(mesh))};
  const std::int64_t places = std::int64_t{run.rounds.count()} * mesh.workers();
  if (places > config.grains) {
    const std::int64_t batch = std::max<std::int64_t>(1, (config.batchSize + places / 2) / places) * places;
    notes.push_back(
        fmt::format("{} grains on {} workers leave {} of {} places in a step empty, which are computed all "
                    "the same; --batch-size {} "
                    "--grains {} would fill them",
                    config.grains, mesh.workers(), places - config.grains, places, batch, places));
  }
  return notes;
}

}  // namespace cohort
