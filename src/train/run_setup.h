// From a configuration to the objects of a run: which data, graph, optimizer, lanes and length it means. Private to train.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "optim/shard.h"
#include "sync/own_state.h"
#include "train/checkpoint.h"
#include "train/engine_model.h"
#include "train/model.h"
#include "train/run.h"

namespace cohort {

// The splits that a run uses. Sizes that the configuration left open, or that the dataset decides, are filled in.
struct RunData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> evaluation;
};
RunData openData(const RunContext& context, RunConfig& config);
// One split, as evaluations see it.
std::unique_ptr<Dataset> openForEvaluation(const RunContext& context, RunConfig& config, Split split);

// "test", "validation" or "train"; `flag` is what the text belongs to.
Split parseSplit(const std::string& text, const std::string& flag);

// The network, where it is one of operators; nothing of somebody's own code.
std::optional<Graph> graphOf(const RunContext& context, const RunConfig& config);
std::unique_ptr<Model> makeModel(const RunContext& context, const RunConfig& config, Lanes& lanes,
                                 std::optional<GroupPart> part = {});
ShardOptions shardOptions(const RunConfig& config, std::int64_t samples);
// Of what a center has: where workers have weights of their own, the optimizer is theirs.
ShardOptions centerShardOptions(const RunConfig& config, std::int64_t samples);
// What such a worker has. The context and the layout outlive it.
std::unique_ptr<OwnState> makeOwnState(const RunContext& context, const RunConfig& config,
                                       const ParameterLayout& layout, std::int64_t samples,
                                       std::span<const ArenaRange> slices = {});

// Threads that this worker may have as lanes: as configured, or one for each of its cores.
int threadsOf(const RunConfig& config, const WorkerPlace& place);
// The cores for this worker's lanes, one each; none where it does not use all of its own.
std::vector<int> coresOf(const RunConfig& config, const WorkerPlace& place, int lanes);
// Of `grains` that the worker computes.
int lanesOf(const RunConfig& config, const WorkerPlace& place, int grains);
int dataThreadsOf(const RunConfig& config, const Dataset& dataset, int lanes);

// The largest Step where only a time ends the run; UsageError where nothing does.
Step targetStep(const RunConfig& config, std::int64_t samples);
// What the state begins with: the newest whole checkpoint, whose step is returned, or the weights that the configuration names, or what
// it has. `isFirst`: of the workers, this one speaks. IoError where checkpoints are there and none is whole.
std::optional<Step> restoreRun(const CheckpointStore& checkpoints, const RunConfig& config, bool isFirst,
                               TrainingState& state, RunObserver& observer);
// What there is to say of a run that starts at the state's step.
RunObserver::Started startOf(const RunConfig& config, const RunData& data, const TrainingState& state,
                             int lanes, int threads, Step target);
// Steps between log points: as configured, or a round number that gives 20 to 50 of them.
Step logInterval(const RunConfig& config, Step target);

}  // namespace cohort
