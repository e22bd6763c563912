#include "sync/bulk_synchronous.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr int kAgreementTag = 0;
constexpr int kExchangeTag = 2;

}  // namespace

std::vector<std::vector<int>> coversOf(const GrainTree& tree, const GrainDivision& division) {
  std::vector<std::vector<int>> covers;
  covers.reserve(static_cast<std::size_t>(division.workers()));
  for (int rank = 0; rank < division.workers(); ++rank) covers.push_back(tree.cover(division.of(rank)));
  return covers;
}

std::vector<std::span<float>> arenasOf(TreeSum& sum, const std::vector<int>& nodes) {
  std::vector<std::span<float>> arenas(nodes.size());
  std::ranges::transform(nodes, arenas.begin(), [&](int node) { return sum.arenaOf(node); });
  return arenas;
}

void TimedShards::update(std::size_t offset, std::span<const float> sum, Step step) {
  const auto start = std::chrono::steady_clock::now();
  if (!kept_.empty()) std::ranges::copy(sum, kept_.begin() + static_cast<std::ptrdiff_t>(offset));
  const auto shard = std::ranges::upper_bound(shards_, offset, {}, &Shard::end);
  COHORT_CHECK(shard != shards_.end(), "the gradient belongs to one of the shards");
  shard->update(offset, sum, step);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  nanoseconds_.fetch_add(took.count(), std::memory_order_relaxed);
}

BulkSynchronous::BulkSynchronous(Communicator& alone, const ParameterLayout& layout, std::span<Shard> shards,
                                 int grains, int lanes)
    : shards_(shards),
      grains_(grains),
      lanes_(lanes),
      tree_(grains),
      agreement_(alone, tree_, GrainDivision::equal(grains, 1), kAgreementTag),
      sum_(layout, tree_, {0, grains}, lanes,
           [this, &layout](int, PieceIndex piece, std::span<const float> sum) {
             shards_.update(layout.piece(piece).offset, sum, step_);
           }) {
  COHORT_CHECK(alone.size() == 1, "several workers exchange what they have");
}

void BulkSynchronous::beginStep(Step step, Wishes wishes) {
  step_ = step;
  agreement_.begin(wishes);
}

ShardedBulkSynchronous::ShardedBulkSynchronous(Communicator& workers, const ParameterLayout& layout,
                                               const BucketPlan& plan, std::span<Shard> shards,
                                               std::span<float> weights, const GrainDivision& division,
                                               int lanes, Wire wire)
    : shards_(shards),
      lanes_(lanes),
      tree_(division.grains()),
      own_(division.of(workers.rank())),
      agreement_(workers, tree_, division, kAgreementTag),
      sum_(layout, tree_, own_, lanes,
           [this](int node, PieceIndex piece, std::span<const float>) { exchange_.finished(node, piece); }),
      exchange_(workers, plan,
                {.tree = tree_,
                 .nodesOf = coversOf(tree_, division),
                 .arenas = arenasOf(sum_, tree_.cover(own_)),
                 .weights = weights,
                 .apply = [this](std::size_t offset,
                                 std::span<const float> sum) { shards_.update(offset, sum, step_); },
                 .wire = wire},
                kExchangeTag) {}

void ShardedBulkSynchronous::beginStep(Step step, Wishes wishes) {
  step_ = step;
  agreement_.begin(wishes);
  exchange_.begin();
}

StepResult ShardedBulkSynchronous::finishStep() {
  exchange_.end(fmt::format("step {}", step_));
  return agreement_.finish();
}

std::unique_ptr<BulkRule> makeBulkSynchronous(Communicator& workers, const ParameterLayout& layout,
                                              const BucketPlan& plan, std::span<Shard> shards,
                                              std::span<float> weights, const GrainDivision& division,
                                              int lanes, Wire wire) {
  if (workers.size() == 1)
    return std::make_unique<BulkSynchronous>(workers, layout, shards, division.grains(), lanes);
  return std::make_unique<ShardedBulkSynchronous>(workers, layout, plan, shards, weights, division, lanes,
                                                  wire);
}

}  // namespace cohort
