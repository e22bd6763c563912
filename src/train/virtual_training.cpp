#include "train/virtual_training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/instruction_set.h"
#include "simulation/center_simulation.h"
#include "simulation/gossip_simulation.h"
#include "simulation/lockstep_simulation.h"
#include "train/checkpoint.h"
#include "train/cluster_file.h"
#include "train/config_file.h"
#include "train/desk_bench.h"
#include "train/recorder.h"
#include "train/run_report.h"
#include "train/run_setup.h"

namespace cohort {
namespace {

constexpr int kGradientsTag = Communicator::kTags / 2;

class VirtualTraining {
 public:
  VirtualTraining(const RunContext& context, RunConfig config, const JobDirectory& job, RunObserver& observer,
                  Clock::time_point processStart, const WorkerPlace& place)
      : context_(context),
        config_(std::move(config)),
        cluster_(config_.cluster.empty() ? ClusterModel{} : readClusterFile(config_.cluster)),
        alone_(place.workers),
        activity_(place.activity),
        processStart_(processStart),
        job_(job),
        observer_(observer),
        data_(openData(context, config_)),
        target_(targetStep(config_, data_.train->size())),
        batches_(*data_.train, {.batchSize = config_.batchSize,
                                .grains = static_cast<int>(config_.grains),
                                .seed = config_.seed,
                                .shuffle = config_.shuffle && config_.randomness}),
        bench_(context, config_, batches_, threadsOf(config_, place),
               coresOf(config_, place, threadsOf(config_, place))),
        owned_{{{0, bench_.layout().size()}}},
        state_(bench_.layout(), centerShardOptions(config_, data_.train->size()), config_.seed,
               bench_.places()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep), alone_),
        report_(config_, target_, data_.train->size(), observer, processStart),
        configText_(toYaml(config_)) {
    if (!config_.initFrom.empty()) initializeFrom(config_.initFrom, state_);
  }

  RunSummary train(const StopFlag& stop);

 private:
  int servers() const {
    return hasCenter(config_) ? static_cast<int>(std::max<std::int64_t>(1, config_.servers)) : 0;
  }
  VirtualPlace place() const;
  std::unique_ptr<VirtualRun> makeRun();
  CenterSetup centerSetup() const;
  void tellStart();
  void loop(const StopFlag& stop);
  void passed(const VirtualRun::Progress& progress, Step before, double seconds);
  void copyState() { run_->copyState(state_.weights.span(), state_.shards.front().slots()); }
  void checkpoint();
  EvaluationPoint evaluate();
  RunSummary summarize();

  // Whether a multiple of `every` lies in (before, now].
  static bool crossed(Step before, Step now, Step every) {
    return every > 0 && before / every != now / every;
  }

  const RunContext& context_;
  RunConfig config_;
  ClusterModel cluster_;
  Communicator& alone_;
  Activity& activity_;
  Clock::time_point processStart_;
  const JobDirectory& job_;
  RunObserver& observer_;
  RunData data_;
  Step target_;
  BatchSource batches_;
  DeskBench bench_;
  Ownership owned_;
  TrainingState state_;  // what is written and evaluated; the run has its own
  CheckpointStore checkpoints_;
  RunReport report_;
  std::string configText_;
  std::unique_ptr<VirtualRun> run_;
  std::unique_ptr<Recorder> recorder_;
  CheckpointInterval interval_;
  Clock::time_point lastCheckpointTime_;
  Step lastCheckpoint_ = -1;
  // What waits for weights that are the run's.
  struct Due {
    bool evaluation = false;
    bool checkpoint = false;
    bool receipt = false;
  };
  Due due_;
  RunSummary summary_;
};

VirtualPlace VirtualTraining::place() const {
  return {.cluster = cluster_,
          .source = config_.cluster.empty() ? "the cluster" : config_.cluster,
          .workers = static_cast<int>(config_.virtualWorkers),
          .groupSize = groupSize(config_),
          .servers = servers(),
          .seed = config_.seed,
          .grainSamples = config_.batchSize / config_.grains};
}

CenterSetup VirtualTraining::centerSetup() const {
  CenterSetup setup{.config = {},
                    .parameters = {},
                    .optimizer = centerShardOptions(config_, data_.train->size()).optimizer,
                    .schedule = config_.schedule,
                    .epoch = {.samples = data_.train->size(), .batch = config_.batchSize},
                    .grains = static_cast<int>(config_.grains),
                    .target = target_,
                    .rule = {.name = centerRule(config_),
                             .staleness = config_.staleness,
                             .backups = config_.sync == "backup" ? static_cast<int>(config_.backups) : 0,
                             .members = static_cast<int>(config_.virtualWorkers) / groupSize(config_),
                             .scaleRate = config_.scaleStale,
                             .hasOwnWeights = exchanges(config_),
                             .seed = config_.seed}};
  for (const Parameter& parameter : state_.layout.parameters()) setup.parameters.push_back(parameter);
  return setup;
}

std::unique_ptr<VirtualRun> VirtualTraining::makeRun() {
  const std::vector<Shard::Slot> slots = state_.shards.front().slots();
  if (exchanges(config_)) {
    const auto makeOwn = [this] {
      return makeOwnState(context_, config_, state_.layout, data_.train->size());
    };
    if (gossips(config_)) {
      return std::make_unique<GossipSimulation>(centerSetup(), place(), state_.weights.span(), makeOwn,
                                                bench_);
    }
    return std::make_unique<ExchangeSimulation>(centerSetup(), place(), state_.weights.span(), makeOwn,
                                                bench_);
  }
  if (hasCenter(config_)) {
    return std::make_unique<CenterSimulation>(centerSetup(), place(), state_.weights.span(), slots, bench_);
  }
  const VirtualStart start{.layout = state_.layout,
                           .options = shardOptions(config_, data_.train->size()),
                           .weights = state_.weights.span(),
                           .slots = slots};
  const auto workers = static_cast<int>(config_.virtualWorkers);
  std::unique_ptr<LockstepRule> rule;
  if (config_.sync == "bsp") {
    rule = sharedWeights(start, workers);
  } else {
    const bool isDiloco = config_.sync == "diloco";
    rule = ownWeights(start, {.workers = workers,
                              .every = isDiloco ? config_.innerSteps : config_.avgFreq,
                              .last = target_ - 1,
                              .outerRate = isDiloco ? config_.outerLearningRate : 1,
                              .outerMomentum = isDiloco ? config_.outerMomentum : 0});
  }
  return std::make_unique<LockstepSimulation>(std::move(rule), place(), static_cast<int>(config_.grains),
                                              target_, state_.layout.size() * sizeof(float), bench_);
}

void VirtualTraining::tellStart() {
  RunObserver::Started started = startOf(config_, data_, state_, bench_.places(), bench_.places(), target_);
  started.isVirtual = true;
  started.checkpointBytes = checkpointBytes(state_);
  if (stepsAlone(config_)) {
    started.notes.push_back(
        fmt::format("with --sync {0} a batch is one {1}'s step, and steps are counted over all {1}s",
                    config_.sync, config_.sync == "group" ? "group" : "worker"));
  }
  observer_.started(started);
}

RunSummary VirtualTraining::train(const StopFlag& stop) {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  run_ = makeRun();
  job_.writeConfig(configText_);
  writeWholeFile(job_.path() / "cluster.yaml", toYaml(cluster_));
  recorder_ = std::make_unique<Recorder>(config_, job_, alone_, owned_, state_, kGradientsTag);
  report_.recordTo(*recorder_);
  tellStart();
  summary_.startupSeconds = secondsSince(processStart_);
  activity_.enter(Activity::Phase::Steps);
  loop(stop);
  activity_.enter(Activity::Phase::Ending);
  copyState();
  recorder_->flush();
  if (state_.step != lastCheckpoint_) checkpoints_.saveNow(state_, configText_);
  lastCheckpoint_ = state_.step;
  checkpoints_.wait();
  if (!summary_.interrupted) evaluate();
  recorder_->flush();
  RunSummary summary = summarize();
  job_.writeSummary(toJson(summary));
  return summary;
}

void VirtualTraining::loop(const StopFlag& stop) {
  lastCheckpointTime_ = Clock::now();
  bool isHalted = false;
  for (;;) {
    const Clock::time_point start = Clock::now();
    const Step before = state_.step;
    const std::optional<VirtualRun::Progress> progress = run_->advance();
    if (!progress) break;
    if (!std::isfinite(progress->loss.loss)) {
      throw UsageError(fmt::format("the loss is no longer a number at step {}; a smaller --lr would help",
                                   progress->done - 1));
    }
    state_.step = progress->done;
    activity_.finishStep(state_.step);
    passed(*progress, before, secondsSince(start));
    summary_.interrupted |= stop && state_.step < target_;
    const bool isTimeOver = config_.maxTime > 0 && secondsOf(run_->now()) >= config_.maxTime;
    if ((stop || isTimeOver) && !std::exchange(isHalted, true)) run_->halt();
  }
}

void VirtualTraining::passed(const VirtualRun::Progress& progress, Step before, double seconds) {
  report_.tell({.seconds = secondsOf(run_->now()), .samples = state_.step * config_.batchSize});
  if (before == 1) report_.forgetTimes();
  report_.addSteps(before, state_.step, progress.loss, seconds);
  if (crossed(before, state_.step, report_.logInterval()) || state_.step == target_)
    report_.logPoint(state_.step, {});
  const bool isTime = interval_.seconds > 0 && secondsSince(lastCheckpointTime_) >= interval_.seconds;
  due_.evaluation |= crossed(before, state_.step, config_.evalEvery);
  due_.checkpoint |= crossed(before, state_.step, interval_.steps) || isTime;
  due_.receipt |= recorder_->wantsReceipt(state_.step);
  if (!progress.isCommon || !(due_.evaluation || due_.checkpoint || due_.receipt)) return;
  copyState();
  const Due due = std::exchange(due_, {});
  if (due.receipt) recorder_->addReceipt(progress.loss.meanLoss());
  if (state_.step == target_) return;  // what follows is done at the end
  if (due.evaluation) observer_.evaluated(evaluate());
  if (due.checkpoint) checkpoint();
  activity_.enter(Activity::Phase::Steps);
}

void VirtualTraining::checkpoint() {
  const Clock::time_point start = Clock::now();
  activity_.enter(Activity::Phase::Checkpoint);
  recorder_->flush();
  checkpoints_.save(state_, configText_);
  lastCheckpoint_ = state_.step;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
  observer_.checkpointed(state_.step);
}

EvaluationPoint VirtualTraining::evaluate() {
  const Clock::time_point start = Clock::now();
  activity_.enter(Activity::Phase::Evaluation);
  const LossSum sums = bench_.evaluate(*data_.evaluation, state_.shards.front().evaluationWeights());
  summary_.evaluationSeconds += secondsSince(start);
  return report_.addEvaluation(state_.step, sums);
}

RunSummary VirtualTraining::summarize() {
  RunSummary s = summary_;
  report_.fill(s, state_.step);
  s.threads = bench_.places();
  s.weightsHash = weightsHash(state_.weights.span());
  s.checkpoint = checkpoints_.pathOf(lastCheckpoint_).string();
  s.inVirtualTime = {.outcome = run_->outcome(),
                     .workers = static_cast<int>(config_.virtualWorkers),
                     .servers = servers(),
                     .samples = state_.step * config_.batchSize};
  return s;
}

}  // namespace

RunSummary runVirtually(const RunContext& context, RunConfig config, const JobDirectory& job,
                        const StopFlag& stop, Clock::time_point processStart, RunObserver& observer,
                        const WorkerPlace& place) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  VirtualTraining run(context, std::move(config), job, observer, processStart, place);
  return run.train(stop);
}

}  // namespace cohort
