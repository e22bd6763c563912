#include "train/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/channel.h"
#include "engine/instruction_set.h"
#include "sync/local_steps.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/divided_run.h"
#include "train/evaluator.h"
#include "train/recorder.h"
#include "train/run_report.h"
#include "train/run_setup.h"
#include "train/same_configuration.h"
#include "train/trainer.h"
#include "train/worker_share.h"

namespace cohort {
namespace {

constexpr int kChannel = 0;

// Everything that a run holds, from the configuration to the last summary.
class Run {
 public:
  Run(const RunContext& context, RunConfig config, const JobDirectory& job, RunObserver& observer,
      Clock::time_point processStart, const WorkerPlace& place)
      : config_(std::move(config)),
        place_(place),
        workers_(place.workers),
        channel_(workers_, kChannel),
        processStart_(processStart),
        job_(job),
        observer_(observer),
        data_(openData(context, config_)),
        target_(targetStep(config_, data_.train->size())),
        divided_(divideRun(context, config_, channel_, threadsOf(config_, place_))),
        grainShares_(shareGrains(channel_, config_, threadsOf(config_, place_))),
        lanes_(laneCount(), coresOf(config_, place, laneCount())),
        model_(makeModel(context, config_, lanes_, groupPartOf(divided_.get(), workers_))),
        share_(workers_, model_->layout(), divided_.get(), grainShares_.division),
        state_(makeState()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep), workers_),
        batches_(*data_.train, {.batchSize = config_.batchSize,
                                .grains = grains(),
                                .seed = config_.seed,
                                .shuffle = config_.shuffle && config_.randomness}),
        report_(config_, target_, data_.train->size(), observer, processStart),
        rule_(makeRule()),
        completion_(share_.makeCompletion(state_)),
        evaluator_(channel_, share_.owned(), *model_, state_, *data_.evaluation, kAveragesTag) {
    configText_ = toYaml(config_);
    if (const std::optional<Graph> graph = graphOf(context, config_)) {
      summary_.denseWeightShare = denseWeightShare(*graph);
    }
  }

  RunSummary train(const StopFlag& stop);

 private:
  int grains() const { return static_cast<int>(config_.grains); }
  GrainRange ownGrains() const { return grainShares_.division.of(workers_.rank()); }
  int laneCount() const { return cohort::laneCount(divided_.get(), ownGrains(), threadsOf(config_, place_)); }
  bool isLocal() const { return config_.sync == "local" || config_.sync == "diloco"; }
  TrainingState makeState() const;
  std::unique_ptr<SyncRule> makeRule();
  Wishes wishes(const StopFlag& stop, Clock::time_point begin) const;
  void restore();
  void completeWeights();
  void loop(const StopFlag& stop);
  std::string diverged();
  void checkpoint();
  void tellCheckpointTime();
  EvaluationPoint evaluate();
  TimeShares totals() const;
  RunSummary summarize();
  void gatherWorkers(RunSummary& summary) const;

  RunConfig config_;
  WorkerPlace place_;
  Communicator& workers_;
  Channel channel_;
  Clock::time_point processStart_;
  std::string configText_;
  const JobDirectory& job_;
  RunObserver& observer_;
  RunData data_;
  Step target_;
  std::unique_ptr<DividedRun> divided_;  // where the network is
  GrainShares grainShares_;
  Lanes lanes_;
  std::unique_ptr<Model> model_;
  WorkerShare share_;
  TrainingState state_;
  CheckpointStore checkpoints_;
  BatchSource batches_;
  RunReport report_;
  std::unique_ptr<SyncRule> rule_;
  std::unique_ptr<LaneBatches> laneBatches_;
  std::unique_ptr<SliceGather> completion_;  // of weights that only some workers have
  Step completed_ = -1;                      // the step after which all have all weights
  std::unique_ptr<Trainer> trainer_;

  Step startStep_ = 0;
  Step lastCheckpoint_ = -1;
  Clock::time_point lastCheckpointTime_;
  CheckpointInterval interval_;
  // What waits for weights that all workers have in common; with most rules, that is after every step.
  struct Due {
    Wishes wishes = 0;
    bool evaluation = false;
    bool checkpoint = false;
    bool receipt = false;
  };
  Due due_;
  double firstWaitSeconds_ = 0;  // in the step whose time is forgotten
  std::int64_t sentBytes_ = 0;   // in steps
  Evaluator evaluator_;
  std::unique_ptr<Recorder> recorder_;  // from the restored step on
  RunSummary summary_;
};

TrainingState Run::makeState() const {
  ShardOptions options = shardOptions(config_, data_.train->size());
  const std::span<const ArenaRange> slices = share_.own();
  if (!isLocal()) return {model_->layout(), options, slices, config_.seed, lanes_.count()};
  options.grains = ownGrains().count();
  TrainingState state(model_->layout(), options, config_.seed, lanes_.count());
  state.ownSlots = {
      .rank = workers_.rank(), .size = workers_.size(), .slices = {slices.begin(), slices.end()}};
  if (config_.sync == "diloco" && config_.outerMomentum > 0) state.outer = FloatBuffer(state.layout.size());
  return state;
}

std::unique_ptr<SyncRule> Run::makeRule() {
  const Wire wire = config_.wire == "fp16" ? Wire::Fp16 : Wire::Fp32;
  if (!isLocal()) return share_.makeRule(state_, lanes_.count(), wire);
  LocalOptions options{.every = config_.avgFreq, .last = target_ - 1, .wire = wire};
  if (config_.sync == "diloco") {
    options.every = config_.innerSteps;
    options.outerRate = config_.outerLearningRate;
    options.outerMomentum = config_.outerMomentum;
  }
  return std::make_unique<LocalSteps>(workers_, state_.layout, share_.plan(), state_.shards,
                                      state_.weights.span(), state_.outer.span(), grains(), lanes_.count(),
                                      options);
}

// What this worker would have happen after the next step.
Wishes Run::wishes(const StopFlag& stop, Clock::time_point begin) const {
  Wishes wishes = stop ? kWishStop : 0;
  if (!workers_.isFirst()) return wishes;
  if (config_.maxTime > 0 && secondsSince(begin) >= config_.maxTime) wishes |= kWishEnd;
  if (interval_.seconds > 0 && secondsSince(lastCheckpointTime_) >= interval_.seconds)
    wishes |= kWishCheckpoint;
  return wishes;
}

void Run::restore() {
  lastCheckpoint_ = restoreRun(checkpoints_, config_, workers_.isFirst(), state_, observer_).value_or(-1);
  startStep_ = state_.step;
  place_.activity.finishStep(state_.step);
}

// By all workers: what only some of them have moves to all, once for a step.
void Run::completeWeights() {
  if (!completion_ || completed_ == state_.step) return;
  completion_->run("the weights");
  completed_ = state_.step;
}

RunSummary Run::train(const StopFlag& stop) {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  restore();
  if (workers_.isFirst()) job_.writeConfig(configText_);
  recorder_ = std::make_unique<Recorder>(config_, job_, workers_, share_.owned(), state_, kGradientsTag);
  report_.recordTo(*recorder_);
  RunObserver::Started started =
      startOf(config_, data_, state_, lanes_.count(), threadsOf(config_, place_), target_);
  started.workers = workers_.size();
  started.checkpointBytes = checkpointBytes(state_);
  if (config_.wire == "fp16" && workers_.size() > 1 && !divided_) {
    started.notes.emplace_back(
        "with --wire fp16 the weights depend on the number of workers; --wire fp32 gives the same for all");
  }
  if (const std::string note = noteOf(grainShares_, config_); !divided_ && !note.empty()) {
    started.notes.push_back(note);
    started.hasUnequalWorkers = true;
  }
  if (divided_) {
    for (std::string& note : notesOf(*divided_, config_)) started.notes.push_back(std::move(note));
  }
  observer_.started(started);
  if (state_.step < target_) {
    model_->prepareTraining(state_.weights.span());
    model_->tell(place_.activity);
    if (workers_.isFirst()) job_.writeLayers(toJson(model_->layers()));
    laneBatches_ =
        std::make_unique<LaneBatches>(batches_, divided_.get(), *rule_, lanes_.count(), state_.step,
                                      dataThreadsOf(config_, *data_.train, lanes_.count()));
    trainer_ = std::make_unique<Trainer>(lanes_, model_->trainables(), *rule_, place_.activity);
    loop(stop);
  }
  place_.activity.enter(Activity::Phase::Ending);
  recorder_->flush();
  if (state_.step != lastCheckpoint_) checkpoints_.saveNow(state_, configText_);
  lastCheckpoint_ = state_.step;
  checkpoints_.wait();
  tellCheckpointTime();
  completeWeights();
  if (!summary_.interrupted) evaluate();
  recorder_->flush();
  RunSummary summary = summarize();
  gatherWorkers(summary);
  if (!workers_.isFirst()) return summary;
  if (trainer_) job_.writeLayers(toJson(model_->layers()));
  job_.writeSummary(toJson(summary));
  return summary;
}

void Run::loop(const StopFlag& stop) {
  const Clock::time_point begin = Clock::now();
  const Trainer::NextBatch nextBatch = [this](int lane, Step step, GrainIndex unit) {
    return laneBatches_->next(lane, step, unit);
  };
  lastCheckpointTime_ = begin;
  summary_.startupSeconds = secondsSince(processStart_);
  // Before the first step, all see the same: nobody stops here alone.
  place_.activity.enter(Activity::Phase::Steps);
  while (state_.step < target_) {
    // The first step touches all memory for the first time; a longer run's speed is told without it.
    if (state_.step == startStep_ + 1) {
      report_.forgetTimes();
      firstWaitSeconds_ = totals().wait;
    }
    const Clock::time_point start = Clock::now();
    rule_->keepGradients(report_.isLogPoint(state_.step + 1) ? recorder_->gradients() : std::span<float>());
    const std::int64_t sentBefore = workers_.sentBytes();
    const StepResult result = trainer_->step(state_.step, nextBatch, wishes(stop, begin));
    sentBytes_ += workers_.sentBytes() - sentBefore;
    const LossSum& sums = result.loss;
    const double seconds = secondsSince(start);
    if (!std::isfinite(sums.loss)) {
      throw UsageError(diverged());
    }
    ++state_.step;
    place_.activity.finishStep(state_.step);
    report_.addSteps(state_.step - 1, state_.step, sums, seconds);
    tellCheckpointTime();
    due_.wishes |= result.wishes;
    // The only worker need not tell others first.
    if (workers_.size() == 1) due_.wishes |= wishes(stop, begin);
    due_.evaluation |= config_.evalEvery > 0 && state_.step % config_.evalEvery == 0;
    due_.checkpoint |= interval_.steps > 0 && state_.step % interval_.steps == 0;
    due_.receipt |= recorder_->wantsReceipt(state_.step);
    const bool isCommon = rule_->isCommon(state_.step - 1);
    if (isCommon && std::exchange(due_.receipt, false)) {
      completeWeights();
      recorder_->addReceipt(sums.meanLoss());
    }
    if (report_.isLogPoint(state_.step)) {
      if (config_.histograms) completeWeights();
      report_.logPoint(state_.step, totals());
    }
    if (state_.step == target_) break;
    if (!isCommon) continue;
    summary_.interrupted = (due_.wishes & kWishStop) != 0;
    if (summary_.interrupted || (due_.wishes & kWishEnd) != 0) break;
    if (std::exchange(due_.evaluation, false)) {
      observer_.evaluated(evaluate());
      place_.activity.enter(Activity::Phase::Steps);
    }
    if (std::exchange(due_.checkpoint, false) || (due_.wishes & kWishCheckpoint) != 0) checkpoint();
    due_.wishes = 0;
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

void Run::checkpoint() {
  const Clock::time_point start = Clock::now();
  place_.activity.enter(Activity::Phase::Checkpoint);
  recorder_->flush();
  checkpoints_.save(state_, configText_);
  lastCheckpoint_ = state_.step;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
  observer_.checkpointed(state_.step);
  place_.activity.enter(Activity::Phase::Steps);
}

void Run::tellCheckpointTime() {
  if (const std::optional<double> seconds = checkpoints_.takeSeconds()) observer_.checkpointWritten(*seconds);
}

EvaluationPoint Run::evaluate() {
  const Clock::time_point start = Clock::now();
  place_.activity.enter(Activity::Phase::Evaluation);
  completeWeights();
  const LossSum sums = evaluator_.run();
  summary_.evaluationSeconds += secondsSince(start);
  return report_.addEvaluation(state_.step, sums);
}

TimeShares Run::totals() const {
  const double lanes = lanes_.count();
  const PhaseSeconds seconds = trainer_->seconds();
  const double update = rule_->updateSeconds() / lanes;
  return {.data = seconds.data / lanes,
          .forward = seconds.forward / lanes,
          .backward = seconds.backward / lanes - update,
          .update = update,
          .wait = seconds.wait / lanes,
          .checkpoint = summary_.checkpointSeconds,
          .evaluation = summary_.evaluationSeconds};
}

// How each worker fared, on the first one.
void Run::gatherWorkers(RunSummary& summary) const {
  const double busy = report_.times().totalSeconds() - (summary.waitSeconds - firstWaitSeconds_);
  const double share = divided_
                           ? 1.0 / workers_.size()
                           : static_cast<double>(ownGrains().count()) / static_cast<double>(config_.grains);
  // Its own speed: its part of the batch, in the time that it did not wait for others.
  const double images =
      static_cast<double>(report_.times().steps()) * static_cast<double>(config_.batchSize) * share;
  const WorkerSummary own{
      .host = hostName(),
      .lanes = lanes_.count(),
      .imagesPerSecond = busy > 0 ? images / busy : 0,
      .uncertainty = summary.speed.uncertainty * share,
      .jitter = summary.speed.jitter * share,
      .waitSeconds = summary.waitSeconds,
      .communicationSeconds = workers_.busySeconds(),
      .dataSeconds = summary.dataSeconds,
      .sentBytesPerStep =
          static_cast<double>(sentBytes_) / static_cast<double>(std::max<Step>(1, state_.step - startStep_)),
      .peakMemoryBytes = summary.peakMemoryBytes};
  for (const std::string& text : channel_.gather(toJson(own), "its summary")) {
    summary.workers.push_back(workerSummary(text));
    summary.sentBytesPerStep += summary.workers.back().sentBytesPerStep / workers_.size();
  }
}

RunSummary Run::summarize() {
  RunSummary s = summary_;
  report_.fill(s, state_.step);
  s.startStep = startStep_;
  s.threads = lanes_.count();
  if (trainer_) {
    addTimes(s, totals());
    const LayerTable layers = model_->layers();
    if (!layers.empty()) {
      s.layerShares = {.conv = timeShare(layers, "conv"),
                       .dense = timeShare(layers, "dense"),
                       .pool = timeShare(layers, "pool"),
                       .collective = timeShare(layers, "collective")};
    }
  }
  s.weightsHash = weightsHash(state_.weights.span());
  s.checkpoint = checkpoints_.pathOf(lastCheckpoint_).string();
  return s;
}

}  // namespace

RunSummary runTraining(const RunContext& context, RunConfig config, const JobDirectory& job,
                       const StopFlag& stop, Clock::time_point processStart, RunObserver& observer,
                       const WorkerPlace& place) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  config.chaos.clear();  // this command's wish, not the run's
  Run run(context, std::move(config), job, observer, processStart, place);
  try {
    return run.train(stop);
  } catch (...) {
    place.workers.halt();  // others may still send to what goes now
    throw;
  }
}

}  // namespace cohort
