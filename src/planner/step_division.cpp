#include "planner/step_division.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/grain_division.h"

namespace cohort {
namespace {

std::vector<GrainRange> shareAmongLanes(GrainRange units, int lanes) {
  std::vector<GrainRange> shares;
  shares.reserve(static_cast<std::size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) shares.push_back(shareOf(units, {lane, lanes}));
  return shares;
}

// Every worker has all parameters; sums follow the grains' tree.
void divideByData(StepDivision& division, int workers, const StepSettings& settings) {
  if (settings.grains < workers) {
    throw UsageError(fmt::format("{} grains are too few for {} workers: each computes one at least",
                                 settings.grains, workers));
  }
  const GrainDivision grains = GrainDivision::equal(settings.grains, workers);
  const GrainTree tree(settings.grains);
  std::vector<int> all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  StepDivision::Exchange exchange{.workers = std::move(all),
                                  .buckets = BucketPlan(division.members[0].layout, workers)};
  for (int worker = 0; worker < workers; ++worker) {
    const GrainRange own = grains.of(worker);
    StepDivision::Part part{.exchange = 0, .place = worker};
    for (const int node : tree.cover(own)) {
      const int count = tree.node(node).grains.count();
      part.sumOfUnit.insert(part.sumOfUnit.end(), static_cast<std::size_t>(count),
                            static_cast<int>(part.unitsIn.size()));
      part.unitsIn.push_back(count);
    }
    exchange.sums += static_cast<int>(part.unitsIn.size());
    division.workers.push_back({.member = 0,
                                .group = worker,
                                .lanes = shareAmongLanes({0, own.count()}, settings.lanes),
                                .parts = {std::move(part)}});
  }
  division.exchanges.push_back(std::move(exchange));
}

int roundsOf(int grains, const Mesh& mesh) {
  const int most = (grains + mesh.data - 1) / mesh.data;  // grains of a group
  return (most + mesh.model - 1) / mesh.model;
}

// What all workers compute is summed over all; what one member of each group computes, over these members.
void divideInGroups(StepDivision& division, const Mesh& mesh, const StepSettings& settings) {
  const int rounds = roundsOf(settings.grains, mesh);
  const auto bucketsOf = [&](int member, bool isPrivate, int workers) {
    const LocalGraph& local = division.members[static_cast<std::size_t>(member)];
    return BucketPlan(local.layout, workers, [&](ParameterIndex parameter) {
      return local.isPrivate[static_cast<std::size_t>(parameter)] == isPrivate;
    });
  };
  division.exchanges.push_back(
      {.workers = {}, .buckets = bucketsOf(0, false, mesh.workers()), .sums = mesh.workers()});
  for (int member = 0; member < mesh.model; ++member) {
    division.exchanges.push_back(
        {.workers = {}, .buckets = bucketsOf(member, true, mesh.data), .sums = mesh.data, .isPrivate = true});
  }
  const std::vector<int> sumOfUnit(static_cast<std::size_t>(rounds), 0);
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    const int member = rank % mesh.model;
    StepDivision::Worker worker{.member = member,
                                .group = rank - member,
                                .lanes = shareAmongLanes({0, rounds}, std::min(settings.lanes, rounds))};
    for (const int index : {0, 1 + member}) {
      std::vector<int>& workers = division.exchanges[static_cast<std::size_t>(index)].workers;
      worker.parts.push_back({.exchange = index,
                              .place = static_cast<int>(workers.size()),
                              .sumOfUnit = sumOfUnit,
                              .unitsIn = {rounds}});
      workers.push_back(rank);
    }
    division.workers.push_back(std::move(worker));
  }
}

// Where the gradients of a member's nodes lie in the buckets; `worker` is any that is this member.
std::vector<std::vector<StepDivision::Close>> closesOf(const StepDivision& division, int worker) {
  const StepDivision::Worker& self = division.workers[static_cast<std::size_t>(worker)];
  const LocalGraph& local = division.members[static_cast<std::size_t>(self.member)];
  std::vector<std::vector<StepDivision::Close>> closes(local.graph.nodes.size());
  ParameterIndex parameter = 0;  // in backward order, as the layout has them
  for (auto node = local.graph.nodes.rbegin(); node != local.graph.nodes.rend(); ++node) {
    std::map<std::pair<int, int>, int> pieces;  // by part and bucket
    for (std::size_t count = parametersOf(local.graph, *node).size(); count > 0; --count, ++parameter) {
      const Parameter& here = local.layout.at(parameter);
      for (PieceIndex piece = here.firstPiece; piece < here.firstPiece + here.pieceCount; ++piece) {
        for (int part = 0; part < std::ssize(self.parts); ++part) {
          const int exchange = self.parts[static_cast<std::size_t>(part)].exchange;
          const BucketPlan& plan = division.exchanges[static_cast<std::size_t>(exchange)].buckets;
          const BucketPlan::Range buckets = plan.bucketsOf(piece);
          for (int bucket = buckets.first; bucket < buckets.last; ++bucket) ++pieces[{part, bucket}];
        }
      }
    }
    for (const auto& [place, count] : pieces) {
      closes[static_cast<std::size_t>(node->id)].push_back({place.first, place.second, count});
    }
  }
  return closes;
}

}  // namespace

StepDivision divideStep(const Graph& graph, const Strategy& strategy, const Mesh& mesh,
                        const StepSettings& settings) {
  COHORT_CHECK(settings.grains >= 1 && settings.grainSamples >= 1 && settings.lanes >= 1,
               "somebody computes something");
  StepDivision division;
  if (mesh.model == 1 || !isDivided(graph, strategy)) {
    division.members.push_back(partition(graph, Strategy::data(), {0, 1}));
    divideByData(division, mesh.workers(), settings);
  } else {
    for (int member = 0; member < mesh.model; ++member) {
      division.members.push_back(partition(graph, strategy, {member, mesh.model}));
    }
    divideInGroups(division, mesh, settings);
  }
  for (int member = 0; member < std::ssize(division.members); ++member) {
    division.closes.push_back(closesOf(division, member));
  }
  return division;
}

MemoryForecast memoryOf(const StepDivision& division, int worker, const StepSettings& settings) {
  const StepDivision::Worker& self = division.workers[static_cast<std::size_t>(worker)];
  const LocalGraph& local = division.members[static_cast<std::size_t>(self.member)];
  MemoryForecast memory;
  for (const Parameter& parameter : local.layout.parameters())
    memory.weights += parameter.size * sizeof(float);
  for (const StepDivision::Part& part : self.parts) {
    const BucketPlan& plan = division.exchanges[static_cast<std::size_t>(part.exchange)].buckets;
    for (const ArenaRange& slice : plan.slicesOf(part.place)) memory.slots += slice.size() * sizeof(float);
  }
  memory.slots *= static_cast<std::size_t>(settings.optimizerSlots);
  std::size_t values = 0;  // floats of one lane
  for (ValueId value = 0; value < std::ssize(local.graph.values); ++value) {
    values += static_cast<std::size_t>(local.graph.shapeOf(value).count() * settings.grainSamples) *
              static_cast<std::size_t>(local.graph.grainsIn(value));
  }
  for (const GrainRange& lane : self.lanes) {
    if (lane.count() == 0) continue;
    memory.activations += values * sizeof(float);
    // Sums that wait for their other half: about log2 of them at once (see sync/tree_sum.h).
    const auto depth = static_cast<int>(std::bit_width(static_cast<unsigned>(lane.count()))) - 1;
    memory.gradients += memory.weights * static_cast<std::size_t>(std::max(1, depth));
  }
  return memory;
}

}  // namespace cohort
