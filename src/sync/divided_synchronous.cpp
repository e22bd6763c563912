#include "sync/divided_synchronous.h"

#include <fmt/format.h>

namespace cohort {
namespace {

constexpr int kAgreementTag = 0;
constexpr int kSharedTag = 2;

int privateTag(const DividedPlan& plan) {
  return kSharedTag + ShardExchange::tagCount(plan.shared(), GrainTree(plan.groups() * plan.members()));
}

std::vector<std::vector<int>> leavesOf(const GrainTree& tree) {
  std::vector<std::vector<int>> leaves;
  leaves.reserve(static_cast<std::size_t>(tree.node(0).grains.count()));
  for (GrainIndex leaf = 0; leaf < tree.node(0).grains.count(); ++leaf) leaves.push_back({tree.leaf(leaf)});
  return leaves;
}

}  // namespace

int DividedSynchronous::tagCount(const DividedPlan& plan) {
  return privateTag(plan) + ShardExchange::tagCount(plan.own(), GrainTree(plan.groups()));
}

DividedSynchronous::DividedSynchronous(Communicator& workers, const ParameterLayout& layout,
                                       const DividedPlan& plan, std::span<Shard> shards,
                                       std::span<float> weights, int rounds, int lanes, Wire wire)
    : shards_(shards),
      rounds_(rounds),
      lanes_(lanes),
      firstLoss_(workers.rank() * rounds),
      lossTree_(workers.size() * rounds),
      roundTree_(rounds),
      workersTree_(workers.size()),
      groupsTree_(plan.groups()),
      workerLeaf_(workersTree_.leaf(workers.rank())),
      groupLeaf_(groupsTree_.leaf(plan.group())),
      agreement_(workers, lossTree_, GrainDivision::equal(workers.size() * rounds, workers.size()),
                 kAgreementTag),
      sum_(layout, roundTree_, {0, rounds}, lanes,
           [this](int, PieceIndex piece, std::span<const float>) {
             // Each has buckets for its own pieces only.
             shared_.finished(workerLeaf_, piece);
             private_.finished(groupLeaf_, piece);
           }),
      shared_(workers, plan.shared(),
              {.tree = workersTree_,
               .nodesOf = leavesOf(workersTree_),
               .arenas = {sum_.arenaOf(0)},
               .weights = weights,
               .apply = [this](std::size_t offset,
                               std::span<const float> sum) { shards_.update(offset, sum, step_); },
               .wire = wire},
              kSharedTag),
      private_({workers, plan.counterparts()}, plan.own(),
               {.tree = groupsTree_,
                .nodesOf = leavesOf(groupsTree_),
                .arenas = {sum_.arenaOf(0)},
                .weights = weights,
                .apply = [this](std::size_t offset,
                                std::span<const float> sum) { shards_.update(offset, sum, step_); },
                // What stays on this worker need not be rounded.
                .wire = plan.groups() > 1 ? wire : Wire::Fp32},
               privateTag(plan)) {}

void DividedSynchronous::beginStep(Step step, Wishes wishes) {
  step_ = step;
  agreement_.begin(wishes);
  shared_.begin();
  private_.begin();
}

StepResult DividedSynchronous::finishStep() {
  shared_.end(fmt::format("step {}", step_));
  private_.end(fmt::format("step {}", step_));
  return agreement_.finish();
}

}  // namespace cohort
