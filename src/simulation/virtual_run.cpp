#include "simulation/virtual_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

LossSum sumBelow(const GrainTree& tree, int node, const std::vector<std::optional<LossSum>>& grains) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return grains[static_cast<std::size_t>(n.grains.first)].value_or(LossSum{});
  LossSum sum = sumBelow(tree, n.left, grains);
  return sum += sumBelow(tree, n.right, grains);
}

}  // namespace

LossSum sumOfLosses(const GrainTree& tree, const std::vector<std::optional<LossSum>>& grains) {
  return sumBelow(tree, 0, grains);
}

VirtualCluster::VirtualCluster(const VirtualPlace& where)
    : place(where),
      places(placeOn(where.cluster, where.workers, where.servers, where.source)),
      times(where.cluster, places, where.seed, where.source),
      network(where.cluster, places, queue),
      tallies(static_cast<std::size_t>(where.workers)) {}

void VirtualCluster::lose(int worker) {
  ++counts.lost;
  failInVain(worker);
}

void VirtualCluster::failInVain(int worker) {
  constexpr std::int64_t kHopeless = 1000;  // times for each
  if (++inVain_ <= kHopeless * place.workers) return;
  throw UsageError(
      fmt::format("worker {} and others fail so often that no step is finished any more: {} works in a row "
                  "were lost or never begun; give 'failures' in {} a larger "
                  "'mean-time-between'",
                  worker, inVain_, place.source));
}

VirtualOutcome::Class& VirtualCluster::classOf(VirtualOutcome& outcome, int worker) const {
  std::string name = places.hosts[static_cast<std::size_t>(hostOf(worker))].kind;
  if (times.isStraggler(worker)) name += " (straggler)";
  const auto found = std::ranges::find(outcome.classes, name, &VirtualOutcome::Class::name);
  return found != outcome.classes.end() ? *found
                                        : outcome.classes.emplace_back(VirtualOutcome::Class{.name = name});
}

VirtualOutcome VirtualCluster::outcome() const {
  VirtualOutcome all = counts;
  all.bytes = network.sentBytes();
  all.events = queue.happened();
  for (int worker = 0; worker < place.workers; ++worker) {
    const Tally& tally = tallies[static_cast<std::size_t>(worker)];
    VirtualOutcome::Class& own = classOf(all, worker);
    ++own.workers;
    own.works += tally.works;
    own.computing += tally.computing;
    own.waiting += tally.waiting;
    own.away += tally.away;
  }
  return all;
}

}  // namespace cohort
