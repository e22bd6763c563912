#include <fmt/format.h>

#include "base/error.h"
#include "engine/instruction_set.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/run.h"
#include "train/run_setup.h"

namespace cohort {

EvaluationResult runEvaluation(const RunContext& context, const std::filesystem::path& jobDirectory,
                               const std::filesystem::path& checkpoint, const std::string& split, int threads,
                               RunObserver& observer) {
  const auto stored = storedConfig(jobDirectory);
  if (!stored) {
    throw UsageError(fmt::format("{} is no job directory: it has no config.yaml", jobDirectory.string()));
  }
  RunConfig config = resolveConfig(context.networks, stored, {}, context.rules);
  config.threads = threads;
  useInstructionSet(config.isa);
  const std::unique_ptr<Dataset> dataset = openForEvaluation(context, config, parseSplit(split, "--split"));
  Communicator alone;
  Activity activity;
  const WorkerPlace place{.workers = alone, .activity = activity};
  Lanes lanes(lanesOf(config, place, static_cast<int>(config.grains)));
  const std::unique_ptr<Model> model = makeModel(context, config, lanes);
  TrainingState state(model->layout(), shardOptions(config, dataset->size()), config.seed, lanes.count());
  EvaluationResult result;
  result.checkpoint = checkpoint;
  if (checkpoint.empty()) {
    const CheckpointStore store(jobDirectory / "checkpoints", static_cast<int>(config.keep), alone);
    const auto restored = store.restoreLatest(
        state, [&](const std::string& what) { observer.warned(what + "; using the one before"); });
    if (!restored) throw UsageError(fmt::format("{} has no whole checkpoint yet", jobDirectory.string()));
    result.checkpoint = restored->path;
  } else {
    restoreCheckpoint(checkpoint, state);
  }
  result.step = state.step;
  for (const LossSum& sum : model->evaluate(*dataset, state.shards.front().evaluationWeights()))
    result.sums += sum;
  result.weightsHash = weightsHash(state.weights.span());
  return result;
}

}  // namespace cohort
