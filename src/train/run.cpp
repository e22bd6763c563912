#include "train/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/error.h"
#include "engine/instruction_set.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "sync/bulk_synchronous.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/engine_model.h"
#include "train/run_setup.h"
#include "train/step_log.h"
#include "train/trainer.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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
  Run(const RunContext& context, RunConfig config, const JobDirectory& job, RunObserver& observer,
      Clock::time_point processStart)
      : config_(std::move(config)),
        processStart_(processStart),
        job_(job),
        observer_(observer),
        data_(openData(context, config_)),
        target_(targetStep(config_, data_.train->size())),
        logInterval_(logInterval(config_, target_)),
        lanes_(lanesOf(config_)),
        model_(buildGraph(context, config_), config_.batchSize / config_.grains, lanes_, config_.seed),
        state_(model_.layout(), shardOptions(config_, data_.train->size()), config_.seed, lanes_.count()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep)),
        batches_(*data_.train, {.batchSize = config_.batchSize,
                                .grains = static_cast<int>(config_.grains),
                                .seed = config_.seed,
                                .shuffle = config_.shuffle && config_.randomness}),
        rule_(state_.layout, *state_.shard, static_cast<int>(config_.grains), lanes_.count()) {
    configText_ = toYaml(config_);
  }

  RunSummary train(const StopFlag& stop);

 private:
  void restore();
  std::unique_ptr<Prefetcher> startPrefetcher() const;
  void loop(const StopFlag& stop);
  std::string diverged();
  bool checkpointDue() const;
  void checkpoint();
  EvaluationPoint evaluate();
  void openRecords();
  void record(const auto& point);
  void flushRecords();
  bool logPointAfter(Step step) const { return step % logInterval_ == 0 || step == target_; }
  void report(const LossSum& sums);
  void logPoint();
  void recordDistributions();
  StepLog::Totals totals() const;
  RunSummary summarize();

  RunConfig config_;
  Clock::time_point processStart_;
  std::string configText_;
  const JobDirectory& job_;
  RunObserver& observer_;
  RunData data_;
  Step target_;
  Step logInterval_;
  Lanes lanes_;
  EngineModel model_;
  TrainingState state_;
  CheckpointStore checkpoints_;
  BatchSource batches_;
  BulkSynchronous rule_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<Trainer> trainer_;

  Step startStep_ = 0;
  Step lastCheckpoint_ = -1;
  Clock::time_point lastCheckpointTime_;
  CheckpointInterval interval_;
  StepTimes times_;
  std::vector<double> losses_;  // of the last kRecent steps, by step modulo kRecent
  std::optional<LossSum> evaluation_;
  StepLog log_;
  FloatBuffer gradients_;  // the sums of the last step before a log point, where distributions are recorded
  std::vector<std::unique_ptr<RecordSink>> sinks_;
  bool evaluationRecorded_ = false;  // of startStep_
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

std::unique_ptr<Prefetcher> Run::startPrefetcher() const {
  std::vector<Prefetcher::LaneGrains> lanes;
  for (int lane = 0; lane < lanes_.count(); ++lane) {
    const GrainRange grains = rule_.grainsOf(lane);
    lanes.push_back({grains.first, grains.last});
  }
  return std::make_unique<Prefetcher>(batches_, lanes, state_.step,
                                      dataThreadsOf(config_, *data_.train, lanes_.count()));
}

void Run::openRecords() {
  auto metrics = std::make_unique<MetricsFile>(job_.path() / "metrics.jsonl", startStep_);
  evaluationRecorded_ = metrics->hasEvaluation(config_.evalOn);
  sinks_.push_back(std::move(metrics));
  sinks_.push_back(std::make_unique<EventFiles>(job_.path() / "events", startStep_));
  if (config_.histograms) gradients_ = FloatBuffer(state_.layout.size());
}

RunSummary Run::train(const StopFlag& stop) {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  restore();
  job_.writeConfig(configText_);
  openRecords();
  const int threads = threadsOf(config_);
  observer_.started({.network = config_.network,
                     .dataset = config_.dataset,
                     .parameters = state_.layout.weightCount(),
                     .batchSize = config_.batchSize,
                     .grains = config_.grains,
                     .lanes = lanes_.count(),
                     .idleLanes = threads - lanes_.count(),
                     .dataThreads = dataThreadsOf(config_, *data_.train, lanes_.count()),
                     .trainSamples = data_.train->size(),
                     .evaluationSamples = data_.evaluation->size(),
                     .startStep = startStep_,
                     .targetStep = target_ == std::numeric_limits<Step>::max() ? 0 : target_});
  if (state_.step < target_) {
    model_.prepareTraining(state_.weights.span());
    job_.writeLayers(toJson(model_.layers()));
    prefetcher_ = startPrefetcher();
    trainer_ = std::make_unique<Trainer>(lanes_, model_.trainables(), rule_, *prefetcher_,
                                         static_cast<int>(config_.grains));
    loop(stop);
  }
  summary_.interrupted = stop && state_.step < target_;
  flushRecords();
  if (state_.step != lastCheckpoint_) checkpoints_.saveNow(state_, configText_);
  lastCheckpoint_ = state_.step;
  checkpoints_.wait();
  if (!summary_.interrupted) evaluate();
  flushRecords();
  RunSummary summary = summarize();
  if (trainer_) job_.writeLayers(toJson(model_.layers()));
  job_.writeSummary(toJson(summary));
  return summary;
}

void Run::loop(const StopFlag& stop) {
  const Clock::time_point begin = Clock::now();
  lastCheckpointTime_ = begin;
  summary_.startupSeconds = secondsSince(processStart_);
  while (state_.step < target_ && !stop) {
    // The first step touches all memory for the first time; a longer run's speed is told without it.
    if (state_.step == startStep_ + 1) times_ = StepTimes();
    const Clock::time_point start = Clock::now();
    rule_.keepGradients(config_.histograms && logPointAfter(state_.step + 1) ? gradients_.span()
                                                                             : std::span<float>());
    const LossSum sums = trainer_->step(state_.step);
    const double seconds = secondsSince(start);
    times_.add(seconds);
    log_.add(sums, seconds);
    if (!std::isfinite(sums.loss)) {
      throw UsageError(diverged());
    }
    ++state_.step;
    report(sums);
    if (logPointAfter(state_.step)) logPoint();
    if (config_.maxTime > 0 && secondsSince(begin) >= config_.maxTime) break;
    if (state_.step == target_) break;
    if (config_.evalEvery > 0 && state_.step % config_.evalEvery == 0) {
      observer_.evaluated(evaluate());
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
  flushRecords();
  checkpoints_.save(state_, configText_);
  lastCheckpoint_ = state_.step;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
  observer_.checkpointed(state_.step);
}

EvaluationPoint Run::evaluate() {
  const Clock::time_point start = Clock::now();
  evaluation_ = model_.evaluate(*data_.evaluation, state_.shard->evaluationWeights());
  summary_.evaluationSeconds += secondsSince(start);
  EvaluationPoint point{.step = state_.step,
                        .split = config_.evalOn,
                        .loss = evaluation_->meanLoss(),
                        .accuracy = evaluation_->accuracy(),
                        .top5 = evaluation_->top5Accuracy(),
                        .samples = evaluation_->samples};
  // Where the run was finished before, its last evaluation is in the records already.
  if (state_.step != startStep_ || !evaluationRecorded_) record(point);
  return point;
}

void Run::record(const auto& point) {
  for (const auto& sink : sinks_) sink->add(point);
}

// Before every checkpoint: a process that resumes there records no earlier point again.
void Run::flushRecords() {
  for (const auto& sink : sinks_) sink->flush();
}

StepLog::Totals Run::totals() const {
  const double lanes = lanes_.count();
  const PhaseSeconds seconds = trainer_->seconds();
  const double update = rule_.updateSeconds() / lanes;
  return {.seconds = {.data = seconds.data / lanes,
                      .forward = seconds.forward / lanes,
                      .backward = seconds.backward / lanes - update,
                      .update = update,
                      .checkpoint = summary_.checkpointSeconds,
                      .evaluation = summary_.evaluationSeconds},
          .elapsed = secondsSince(processStart_)};
}

void Run::logPoint() {
  const double epoch =
      static_cast<double>(state_.step * config_.batchSize) / static_cast<double>(data_.train->size());
  const TrainPoint point =
      log_.take(state_.step, epoch, state_.shard->learningRate(state_.step - 1), totals());
  record(point);
  if (config_.histograms) recordDistributions();
  flushRecords();
  observer_.logged(point);
}

void Run::recordDistributions() {
  for (const Parameter& parameter : state_.layout.parameters()) {
    if (parameter.kind != ParameterKind::Weight) continue;
    const auto part = [&](std::span<const float> arena) {
      return arena.subspan(parameter.offset, parameter.size);
    };
    record(ValuesPoint{state_.step, "weights/" + parameter.name, part(state_.weights.span())});
    record(ValuesPoint{state_.step, "gradients/" + parameter.name, part(gradients_.span())});
  }
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
       .secondsLeft = known ? static_cast<double>((target_ - state_.step) * config_.batchSize) / speed : -1,
       .logPoint = logPointAfter(state_.step)});
}

RunSummary Run::summarize() {
  RunSummary s = summary_;
  s.network = config_.network;
  s.dataset = config_.dataset;
  s.evaluatedOn = config_.evalOn;
  s.startStep = startStep_;
  s.step = state_.step;
  s.loss = meanOfKnown(losses_);
  if (!s.interrupted) s.evaluation = evaluation_;
  s.speed = times_.statistics(config_.batchSize);
  s.threads = lanes_.count();
  if (trainer_) {
    const TimeShares seconds = totals().seconds;
    s.dataSeconds = seconds.data;
    s.forwardSeconds = seconds.forward;
    s.updateSeconds = seconds.update;
    s.backwardSeconds = seconds.backward;
  }
  s.weightsHash = weightsHash(state_.weights.span());
  for (const CheckpointFile& file : checkpoints_.list()) {
    if (file.step == lastCheckpoint_) s.checkpoint = file.path.string();
  }
  s.elapsedSeconds = secondsSince(processStart_);
  addUsage(s);
  return s;
}

}  // namespace

RunSummary runTraining(const RunContext& context, RunConfig config, const JobDirectory& job,
                       const StopFlag& stop, Clock::time_point processStart, RunObserver& observer) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  return Run(context, std::move(config), job, observer, processStart).train(stop);
}

EvaluationResult runEvaluation(const RunContext& context, const std::filesystem::path& jobDirectory,
                               const std::filesystem::path& checkpoint, const std::string& split, int threads,
                               RunObserver& observer) {
  const auto stored = storedConfig(jobDirectory);
  if (!stored) {
    throw UsageError(fmt::format("{} is no job directory: it has no config.yaml", jobDirectory.string()));
  }
  RunConfig config = resolveConfig(context.networks, stored, {});
  config.threads = threads;
  useInstructionSet(config.isa);
  const std::unique_ptr<Dataset> dataset = openForEvaluation(context, config, parseSplit(split, "--split"));
  Lanes lanes(lanesOf(config));
  EngineModel model(buildGraph(context, config), config.batchSize / config.grains, lanes, config.seed);
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
