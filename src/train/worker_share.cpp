#include "train/worker_share.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sync/bulk_synchronous.h"
#include "sync/divided_synchronous.h"

namespace cohort {
namespace {

constexpr int kRuleTags = 16;  // a rule's own, beside its exchange's

}  // namespace

int laneCount(const DividedRun* divided, const Communicator& workers, int grains, int threads) {
  if (divided != nullptr) return divided->lanes;
  return std::min(threads, grainsOfWorker(grains, workers.rank(), workers.size()).count());
}

std::optional<GroupPart> groupPartOf(const DividedRun* divided, Communicator& workers) {
  if (divided == nullptr) return std::nullopt;
  return GroupPart{divided->local, Group(workers, divided->plan.ownGroup()), kCollectivesTag};
}

WorkerShare::WorkerShare(Communicator& workers, const ParameterLayout& layout, const DividedRun* divided,
                         int grains)
    : workers_(workers), divided_(divided), grains_(grains) {
  if (divided_ != nullptr) {
    owned_ = divided_->plan.owned();
    COHORT_CHECK(DividedSynchronous::tagCount(divided_->plan) <= kAveragesTag, "tags do not overlap");
  } else {
    plan_.emplace(layout, workers.size());
    owned_ = plan_->ownership();
    COHORT_CHECK(ShardExchange::tagCount(*plan_, GrainTree(grains)) + kRuleTags <= kAveragesTag,
                 "tags do not overlap");
  }
}

std::unique_ptr<SyncRule> WorkerShare::makeRule(TrainingState& state, int lanes, Wire wire) const {
  if (divided_ != nullptr) {
    COHORT_CHECK(lanes * lanePortTags(divided_->local.graph) <= Communicator::kTags - kCollectivesTag,
                 "every lane has its tags");
    return std::make_unique<DividedSynchronous>(workers_, divided_->local.layout, divided_->plan,
                                                state.shards, state.weights.span(), divided_->rounds.count(),
                                                lanes, wire);
  }
  if (workers_.size() == 1)
    return std::make_unique<BulkSynchronous>(workers_, state.layout, state.shards, grains_, lanes);
  return std::make_unique<ShardedBulkSynchronous>(workers_, state.layout, *plan_, state.shards,
                                                  state.weights.span(), grains_, lanes, wire);
}

std::unique_ptr<SliceGather> WorkerShare::makeCompletion(TrainingState& state) const {
  if (divided_ == nullptr) return nullptr;
  return std::make_unique<SliceGather>(workers_, divided_->plan.privates(), state.weights.span(),
                                       kWeightsTag);
}

LaneBatches::LaneBatches(const BatchSource& source, const DividedRun* divided, const SyncRule& rule,
                         int lanes, Step firstStep, int threads) {
  std::vector<GrainRange> units;
  units.reserve(static_cast<std::size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) units.push_back(rule.grainsOf(lane));
  if (divided != nullptr) {
    rounds_ = std::make_unique<RoundBatches>(source, divided->rounds, units,
                                             divided->local.graph.grainsIn(0) > 1, firstStep, threads);
    return;
  }
  std::vector<Prefetcher::LaneGrains> grains;
  grains.reserve(units.size());
  for (const GrainRange& lane : units) grains.push_back(Prefetcher::range(lane.first, lane.last));
  grains_ = std::make_unique<Prefetcher>(source, std::move(grains), firstStep, threads);
}

Batch LaneBatches::next(int lane, Step step, GrainIndex unit) {
  if (rounds_) return rounds_->next(lane, step, unit);
  const Batch batch = grains_->next(lane);
  COHORT_CHECK(batch.position / batch.globalSize == step, "the samples are another step's");
  return batch;
}

}  // namespace cohort
