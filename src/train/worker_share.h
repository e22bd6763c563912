// One worker's share of a run, whether it has the whole network or a part that its group computes together: what it owns of the arena, the
// rule that sums and applies gradients, and what its lanes read. Private to train.
//
// `divided` is null where workers have the whole network; it outlives what is made of it here.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/grain_division.h"
#include "comm/channel.h"
#include "comm/communicator.h"
#include "data/prefetch.h"
#include "sync/bucket_plan.h"
#include "sync/shard_exchange.h"
#include "sync/slice_gather.h"
#include "sync/sync_rule.h"
#include "train/divided_run.h"
#include "train/engine_model.h"
#include "train/training_state.h"

namespace cohort {

// Tags from here on are not the rules', which begin at 0.
constexpr int kAveragesTag = Communicator::kTags / 2;
constexpr int kGradientsTag = kAveragesTag + Communicator::kTags / 8;
constexpr int kWeightsTag = kGradientsTag + Communicator::kTags / 8;
constexpr int kCollectivesTag = kWeightsTag + Communicator::kTags / 8;

// Every worker's grains where none divides its network, and the threads that it has for them.
struct GrainShares {
  GrainDivision division;
  std::vector<int> threads{};  // by worker
};
// As configured, or where the rule lets it by all workers' threads, which they tell each other; all call this. `threads` are this worker's.
GrainShares shareGrains(const Channel& workers, const RunConfig& config, int threads);
// What to know of it beforehand; empty where all are equal.
std::string noteOf(const GrainShares& shares, const RunConfig& config);

// As many as a step has units (grains of its own, or rounds) for this worker, and it has threads.
int laneCount(const DividedRun* divided, const GrainRange& own, int threads);
// For the worker's model.
std::optional<GroupPart> groupPartOf(const DividedRun* divided, Communicator& workers);

class WorkerShare {
 public:
  // `layout` is the whole network's.
  WorkerShare(Communicator& workers, const ParameterLayout& layout, const DividedRun* divided,
              GrainDivision division);

  const Ownership& owned() const { return owned_; }
  std::span<const ArenaRange> own() const { return owned_[static_cast<std::size_t>(workers_.rank())]; }
  // Of a network that every worker has whole.
  const BucketPlan& plan() const { return *plan_; }

  // Bulk-synchronous. The state has this worker's slices, and outlives the rule, as this does.
  std::unique_ptr<SyncRule> makeRule(TrainingState& state, int lanes, Wire wire = Wire::Fp32) const;
  // Brings weights that only some workers have to all; null where all have all.
  std::unique_ptr<SliceGather> makeCompletion(TrainingState& state) const;

 private:
  Communicator& workers_;
  const DividedRun* divided_;
  GrainDivision division_;
  std::optional<BucketPlan> plan_;
  Ownership owned_;
};

// The samples of a worker's lanes, read ahead by threads.
class LaneBatches {
 public:
  // The source outlives this.
  LaneBatches(const BatchSource& source, const DividedRun* divided, const SyncRule& rule, int lanes,
              Step firstStep, int threads);

  // By the lane's thread, as the rule deals units out; valid until the lane's next call.
  Batch next(int lane, Step step, GrainIndex unit);

 private:
  // One of them.
  std::unique_ptr<Prefetcher> grains_;
  std::unique_ptr<RoundBatches> rounds_;
};

}  // namespace cohort
