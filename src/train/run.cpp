#include "train/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/error.h"
#include "engine/instruction_set.h"
#include "sync/bulk_synchronous.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/engine_model.h"
#include "train/trainer.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

DatasetOptions datasetOptions(const RunConfig& config) {
  return {.name = config.dataset,
          .directory = config.dataDir,
          .channels = static_cast<int>(config.channels),
          .imageSize = static_cast<int>(config.imageSize),
          .classes = static_cast<int>(config.classes),
          .syntheticSize = config.samples,
          .seed = config.seed};
}

// Opens a split; the configuration's sizes become the dataset's own where they were left open.
std::unique_ptr<Dataset> openSplit(RunConfig& config, Split split) {
  DatasetOptions options = datasetOptions(config);
  if (split == Split::Test) options.syntheticSize = config.testSamples;
  std::unique_ptr<Dataset> dataset = openDataset(options, split);
  config.channels = dataset->shape().channels;
  config.imageSize = dataset->shape().height;
  config.classes = dataset->classes();
  return dataset;
}

Graph buildGraph(const NetworkRegistry& networks, const RunConfig& config) {
  return networks.find(config.network)
      .build({.channels = config.channels, .height = config.imageSize, .width = config.imageSize},
             static_cast<int>(config.classes));
}

ShardOptions shardOptions(const RunConfig& config, std::int64_t samples) {
  OptimizerOptions optimizer{.kind = parseOptimizer(config.optimizer),
                             .learningRate = config.learningRate,
                             .momentum = config.momentum,
                             .weightDecay = config.weightDecay,
                             .weightDecayFilter = config.weightDecayFilter,
                             .averageDecay = config.averageDecay};
  for (const std::string& rule : config.paramRules) optimizer.rules.push_back(parseParamRule(rule));
  return {.optimizer = std::move(optimizer),
          .schedule = parseSchedule(config.schedule, {.samples = samples, .batch = config.batchSize}),
          .grains = static_cast<int>(config.grains)};
}

int threadsOf(const RunConfig& config) {
  return config.threads > 0 ? static_cast<int>(config.threads)
                            : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int lanesOf(const RunConfig& config) {
  return std::min(threadsOf(config), static_cast<int>(config.grains));
}

Step targetStep(const RunConfig& config, std::int64_t samples) {
  Step target = config.trainSteps > 0 ? config.trainSteps : std::numeric_limits<Step>::max();
  if (config.epochs > 0) {
    const double steps = config.epochs * static_cast<double>(samples) / static_cast<double>(config.batchSize);
    target = std::min(target, static_cast<Step>(std::ceil(steps)));
  }
  if (target == std::numeric_limits<Step>::max() && config.maxTime <= 0) {
    throw UsageError("nothing says when to stop: give --train-steps, --epochs or --max-time");
  }
  return target;
}

void addUsage(RunSummary& summary) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  summary.cpuSeconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  summary.peakMemoryBytes = std::int64_t{usage.ru_maxrss} * 1024;
}

// Steps that "recent" means, for the reported speed and the final loss.
constexpr std::size_t kRecent = 100;

// NaN where there is none.
double meanOfKnown(const std::vector<double>& values) {
  double sum = 0;
  int known = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++known;
  }
  return known == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / known;
}

// Everything that a run holds, from the configuration to the last summary.
class Run {
 public:
  Run(const NetworkRegistry& networks, RunConfig config, const JobDirectory& job, RunObserver& observer)
      : config_(std::move(config)),
        job_(job),
        observer_(observer),
        train_(openSplit(config_, Split::Train)),
        test_(openSplit(config_, Split::Test)),
        target_(targetStep(config_, train_->size())),
        lanes_(lanesOf(config_)),
        model_(buildGraph(networks, config_), config_.batchSize / config_.grains, lanes_, config_.seed),
        state_(model_.layout(), shardOptions(config_, train_->size()), config_.seed, lanes_.count()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep)),
        batches_(*train_, {.batchSize = config_.batchSize,
                           .grains = static_cast<int>(config_.grains),
                           .seed = config_.seed}),
        rule_(state_.layout, *state_.shard, static_cast<int>(config_.grains), lanes_.count()) {
    configText_ = toYaml(config_);
  }

  RunSummary train(const StopFlag& stop, Clock::time_point processStart);

 private:
  void restore();
  void loop(const StopFlag& stop, Clock::time_point processStart);
  std::string diverged();
  bool checkpointDue() const;
  void checkpoint();
  void evaluate();
  void report(const LossSum& sums);
  RunSummary summarize(Clock::time_point processStart);

  RunConfig config_;
  std::string configText_;
  const JobDirectory& job_;
  RunObserver& observer_;
  std::unique_ptr<Dataset> train_;
  std::unique_ptr<Dataset> test_;
  Step target_;
  Lanes lanes_;
  EngineModel model_;
  TrainingState state_;
  CheckpointStore checkpoints_;
  BatchSource batches_;
  BulkSynchronous rule_;
  std::unique_ptr<Trainer> trainer_;

  Step startStep_ = 0;
  Step lastCheckpoint_ = -1;
  Clock::time_point lastCheckpointTime_;
  CheckpointInterval interval_;
  StepTimes times_;
  std::vector<double> losses_;  // of the last kRecent steps, by step modulo kRecent
  std::optional<LossSum> evaluation_;
  RunSummary summary_;
};

void Run::restore() {
  const auto restored = checkpoints_.restoreLatest(
      state_, [this](const std::string& what) { observer_.warned(what + "; using the one before"); });
  if (restored) {
    lastCheckpoint_ = restored->step;
  } else if (!checkpoints_.list().empty()) {
    throw IoError(fmt::format("no checkpoint in {} is whole; move them away to start again",
                              job_.checkpoints().string()));
  } else if (!config_.initFrom.empty()) {
    initializeFrom(config_.initFrom, state_);
  }
  startStep_ = state_.step;
}

RunSummary Run::train(const StopFlag& stop, Clock::time_point processStart) {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  restore();
  job_.writeConfig(configText_);
  const int threads = threadsOf(config_);
  observer_.started({.network = config_.network,
                     .dataset = config_.dataset,
                     .parameters = state_.layout.weightCount(),
                     .batchSize = config_.batchSize,
                     .grains = config_.grains,
                     .lanes = lanes_.count(),
                     .idleLanes = threads - lanes_.count(),
                     .startStep = startStep_,
                     .targetStep = target_ == std::numeric_limits<Step>::max() ? 0 : target_});
  if (state_.step < target_) {
    model_.prepareTraining(state_.weights.span());
    trainer_ = std::make_unique<Trainer>(lanes_, model_.trainables(), rule_, batches_,
                                         static_cast<int>(config_.grains));
    loop(stop, processStart);
  }
  summary_.interrupted = stop && state_.step < target_;
  if (state_.step != lastCheckpoint_) checkpoints_.saveNow(state_, configText_);
  checkpoints_.wait();
  if (!summary_.interrupted) evaluate();
  RunSummary summary = summarize(processStart);
  job_.writeSummary(toJson(summary));
  return summary;
}

void Run::loop(const StopFlag& stop, Clock::time_point processStart) {
  const Clock::time_point begin = Clock::now();
  lastCheckpointTime_ = begin;
  summary_.startupSeconds = secondsSince(processStart);
  while (state_.step < target_ && !stop) {
    // The first step touches all memory for the first time; a longer run's speed is told without it.
    if (state_.step == startStep_ + 1) times_ = StepTimes();
    const Clock::time_point start = Clock::now();
    const LossSum sums = trainer_->step(state_.step);
    times_.add(secondsSince(start));
    if (!std::isfinite(sums.loss)) {
      throw UsageError(diverged());
    }
    ++state_.step;
    report(sums);
    if (config_.maxTime > 0 && secondsSince(begin) >= config_.maxTime) break;
    if (state_.step == target_) break;
    if (config_.evalEvery > 0 && state_.step % config_.evalEvery == 0) {
      evaluate();
      observer_.evaluated(state_.step, *evaluation_);
    }
    if (checkpointDue()) checkpoint();
  }
}

std::string Run::diverged() {
  try {
    checkpoints_.wait();
  } catch (const UsageError&) {
    // The same failure, seen by the writer: its checkpoint does not exist.
  }
  const std::vector<CheckpointFile> files = checkpoints_.list();
  const std::string kept = files.empty()
                               ? "there is no checkpoint yet"
                               : fmt::format("the last checkpoint, of step {}, is kept", files.back().step);
  return fmt::format("the loss is no longer a number at step {}; a smaller --lr would help ({})", state_.step,
                     kept);
}

bool Run::checkpointDue() const {
  if (interval_.steps > 0 && state_.step % interval_.steps == 0) return true;
  return interval_.seconds > 0 && secondsSince(lastCheckpointTime_) >= interval_.seconds;
}

void Run::checkpoint() {
  const Clock::time_point start = Clock::now();
  checkpoints_.save(state_, configText_);
  lastCheckpoint_ = state_.step;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
}

void Run::evaluate() {
  const Clock::time_point start = Clock::now();
  evaluation_ = model_.evaluate(*test_, state_.shard->evaluationWeights());
  summary_.evaluationSeconds += secondsSince(start);
}

void Run::report(const LossSum& sums) {
  const double loss = sums.meanLoss();
  if (losses_.size() < kRecent) losses_.resize(kRecent, std::numeric_limits<double>::quiet_NaN());
  losses_[times_.steps() % kRecent] = loss;
  const double speed = times_.recentSpeed(config_.batchSize, kRecent);
  const bool known = target_ != std::numeric_limits<Step>::max();
  observer_.progressed(
      {.step = state_.step,
       .targetStep = known ? target_ : 0,
       .loss = loss,
       .imagesPerSecond = speed,
       .learningRate = state_.shard->learningRate(state_.step - 1),
       .secondsLeft = known ? static_cast<double>((target_ - state_.step) * config_.batchSize) / speed : -1});
}

RunSummary Run::summarize(Clock::time_point processStart) {
  RunSummary s = summary_;
  s.network = config_.network;
  s.dataset = config_.dataset;
  s.startStep = startStep_;
  s.step = state_.step;
  s.loss = meanOfKnown(losses_);
  if (!s.interrupted) s.evaluation = evaluation_;
  s.speed = times_.statistics(config_.batchSize);
  s.threads = lanes_.count();
  if (trainer_) {
    const double lanes = lanes_.count();
    const PhaseSeconds seconds = trainer_->seconds();
    s.dataSeconds = seconds.data / lanes;
    s.forwardSeconds = seconds.forward / lanes;
    s.updateSeconds = rule_.updateSeconds() / lanes;
    s.backwardSeconds = seconds.backward / lanes - s.updateSeconds;
  }
  s.weightsHash = weightsHash(state_.weights.span());
  const std::vector<CheckpointFile> files = checkpoints_.list();
  if (!files.empty()) s.checkpoint = files.back().path.string();
  s.elapsedSeconds = secondsSince(processStart);
  addUsage(s);
  return s;
}

}  // namespace

RunSummary runTraining(const NetworkRegistry& networks, RunConfig config, const JobDirectory& job,
                       const StopFlag& stop, Clock::time_point processStart, RunObserver& observer) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  return Run(networks, std::move(config), job, observer).train(stop, processStart);
}

EvaluationResult runEvaluation(const NetworkRegistry& networks, const std::filesystem::path& jobDirectory,
                               const std::filesystem::path& checkpoint, const std::string& split, int threads,
                               RunObserver& observer) {
  const auto stored = storedConfig(jobDirectory);
  if (!stored) {
    throw UsageError(fmt::format("{} is no job directory: it has no config.yaml", jobDirectory.string()));
  }
  if (split != "test" && split != "train")
    throw UsageError(fmt::format("--split is test or train, not {}", split));
  RunConfig config = resolveConfig(networks, stored, {});
  config.threads = threads;
  useInstructionSet(config.isa);
  const std::unique_ptr<Dataset> dataset = openSplit(config, split == "train" ? Split::Train : Split::Test);
  Lanes lanes(lanesOf(config));
  EngineModel model(buildGraph(networks, config), config.batchSize / config.grains, lanes, config.seed);
  TrainingState state(model.layout(), shardOptions(config, dataset->size()), config.seed, lanes.count());
  EvaluationResult result;
  result.checkpoint = checkpoint;
  if (checkpoint.empty()) {
    const CheckpointStore store(jobDirectory / "checkpoints", static_cast<int>(config.keep));
    const auto restored = store.restoreLatest(
        state, [&](const std::string& what) { observer.warned(what + "; using the one before"); });
    if (!restored) throw UsageError(fmt::format("{} has no whole checkpoint yet", jobDirectory.string()));
    result.checkpoint = restored->path;
  } else {
    restoreCheckpoint(checkpoint, state);
  }
  result.step = state.step;
  result.sums = model.evaluate(*dataset, state.shard->evaluationWeights());
  result.weightsHash = weightsHash(state.weights.span());
  return result;
}

}  // namespace cohort
