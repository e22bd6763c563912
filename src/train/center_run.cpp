// A run as one worker of a center sees it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "center/client.h"
#include "center/status.h"
#include "comm/channel.h"
#include "engine/instruction_set.h"
#include "train/center_computer.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/evaluator.h"
#include "train/group_follower.h"
#include "train/run.h"
#include "train/run_report.h"
#include "train/run_setup.h"
#include "train/same_configuration.h"

namespace cohort {
namespace {

constexpr int kChannel = 0;

class CenterRun {
 public:
  CenterRun(const RunContext& context, RunConfig config, const JobDirectory& job, RunObserver& observer,
            const StopFlag& stop, Clock::time_point processStart, const CenterPlace& place)
      : config_(std::move(config)),
        place_(place),
        stop_(stop),
        channel_(alone_, kChannel),
        processStart_(processStart),
        job_(job),
        observer_(observer),
        computer_(context, config_,
                  {.workers = place.group != nullptr ? *place.group : alone_,
                   .activity = place.activity,
                   .cores = place.cores}),
        target_(targetStep(config_, computer_.samples())),
        owned_{{{0, computer_.layout().size()}}},
        state_(computer_.layout(), centerShardOptions(config_, computer_.samples()), config_.seed,
               computer_.lanes().count()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep), alone_),
        report_(config_, target_, computer_.samples(), observer, processStart),
        center_(place.servers, {.recoveryWait = config_.recoveryWait,
                                .name = place.name,
                                .isLeaving = [&stop] { return stop.load(); },
                                .waiting = [this](int server) { place_.activity.waitForServer(server); },
                                .newestCheckpoint = [this] { return newestCheckpoint(); }}),
        evaluator_(channel_, owned_, computer_.model(), state_, *computer_.data().evaluation, kAveragesTag),
        configText_(toYaml(config_)) {
    computer_.begin(&center_, context, state_.weights.span());
  }

  RunSummary train();

 private:
  using Order = CenterClient::Order;

  // What it computes alone.
  bool isAlone() const { return stepsAlone(config_); }
  // Whether it ends with the same bits as any other run of its kind.
  bool isExact() const { return !isAlone() && (config_.sync != "backup" || config_.backups == 0); }
  CenterSetup setup() const;
  Step newestCheckpoint() const {
    const std::vector<CheckpointFile> all = checkpoints_.list();
    return all.empty() ? 0 : all.back().step;
  }
  bool open();
  void join();
  void work();
  void reopen();
  void forgetRecords();
  void tellStart();
  void compute(const Order& order);
  void enter();
  void tellGroup(const Order& order);
  void hear(const Order& order);
  std::optional<Step> fetchSlots();
  // False where the run was broken off meanwhile: nothing was written.
  bool checkpoint(bool isLast);
  EvaluationPoint evaluate();
  void end(const Order& order);
  TimeShares totals() const;
  RunSummary summarize();

  // Whether a multiple of `every` lies in (before, now].
  static bool crossed(Step before, Step now, Step every) {
    return every > 0 && before / every != now / every;
  }

  RunConfig config_;
  CenterPlace place_;
  const StopFlag& stop_;
  Communicator alone_;
  Channel channel_;
  Clock::time_point processStart_;
  const JobDirectory& job_;
  RunObserver& observer_;
  CenterComputer computer_;
  Step target_;
  Ownership owned_;      // this worker's: all
  TrainingState state_;  // its step is the whole run's
  CheckpointStore checkpoints_;
  RunReport report_;
  CenterClient center_;
  Evaluator evaluator_;
  std::string configText_;
  std::unique_ptr<Recorder> recorder_;  // a chief's

  Step startStep_ = 0;
  double waitSeconds_ = 0;  // for orders and weights
  Step ownSteps_ = 0;
  Step lastTold_ = 0;
  Clock::time_point trainingStart_;
  Clock::time_point lastOrder_;
  Step lastCheckpoint_ = -1;
  CenterMoment lastMoment_;  // of it, where this process wrote it
  Clock::time_point lastCheckpointTime_;
  CheckpointInterval interval_;
  bool isChief_ = false;
  RunSummary summary_;
};

CenterSetup CenterRun::setup() const {
  const ShardOptions options = centerShardOptions(config_, computer_.samples());
  CenterSetup setup{.config = sharedConfiguration(config_),
                    .parameters = {},
                    .optimizer = options.optimizer,
                    .schedule = config_.schedule,
                    .epoch = {.samples = computer_.samples(), .batch = config_.batchSize},
                    .grains = static_cast<int>(config_.grains),
                    .target = target_,
                    .rule = {.name = centerRule(config_),
                             .staleness = config_.staleness,
                             .backups = config_.sync == "backup" ? static_cast<int>(config_.backups) : 0,
                             .members = static_cast<int>(config_.workers) / groupSize(config_),
                             .scaleRate = config_.scaleStale,
                             .hasOwnWeights = computer_.exchanges(),
                             .seed = config_.seed},
                    .step = state_.step,
                    .origin = state_.moment};
  for (const Parameter& parameter : state_.layout.parameters()) setup.parameters.push_back(parameter);
  return setup;
}

// Brings what the run begins with, or goes on with. False where another does so.
bool CenterRun::open() {
  lastMoment_ = {};
  lastCheckpoint_ = restoreRun(checkpoints_, config_, true, state_, observer_).value_or(-1);
  std::vector<CenterClient::Arena> arenas{{"weights", state_.weights.span()}};
  for (const Shard::Slot& slot : state_.shards.front().slots()) arenas.push_back({slot.name, slot.values});
  CenterSetup opened = setup();
  opened.weightsHash = weightsHash(state_.weights.span());
  return center_.open(opened, arenas);
}

void CenterRun::reopen() {
  checkpoints_.wait();
  state_.step = 0;
  state_.moment = {};
  initialize(state_.layout, config_.seed, state_.weights.span(), computer_.lanes().count());
  state_.shards.front() =
      Shard(state_.layout, centerShardOptions(config_, computer_.samples()), state_.weights.span());
  forgetRecords();
  computer_.forgetPlans();
  if (!open()) return;
  startStep_ = std::min(startStep_, state_.step);
  observer_.warned(fmt::format(
      "the center had lost its weights; it goes on from {}",
      state_.step == 0 ? "the beginning" : fmt::format("the checkpoint of step {}", state_.step)));
  enter();
}

void CenterRun::enter() {
  center_.enter(setup(), computer_.weights());
}

// What is recorded from now on is another's, or of a run that has gone back.
void CenterRun::forgetRecords() {
  if (recorder_) recorder_->flush();
  recorder_.reset();
}

void CenterRun::tellStart() {
  RunObserver::Started started =
      startOf(config_, computer_.data(), state_, computer_.lanes().count(), computer_.threads(), target_);
  started.isShown = place_.isFirst;
  started.checkpointBytes = checkpointBytes(state_);
  if (isAlone()) {
    const char* member = config_.sync == "group" ? "group" : "worker";
    started.notes.push_back(
        fmt::format("with --sync {0} a batch is one {1}'s step, and steps are counted over all {1}s",
                    config_.sync, member));
  }
  observer_.started(started);
}

RunSummary CenterRun::train() {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  try {
    join();
    work();
  } catch (const LeaveWanted&) {
    computer_.orders().give({.kind = GroupOrder::Kind::Leave});
    summary_.ending = Ending::Left;
    summary_.interrupted = true;
  }
  place_.activity.enter(Activity::Phase::Ending);
  return summarize();
}

void CenterRun::join() {
  for (bool isIn = false; !isIn;) {
    place_.activity.wait(true);
    const CenterClient::Welcome welcome = center_.join();
    place_.activity.wait(false);
    if (welcome.isOpen) {
      requireSharedConfiguration(config_, welcome.config);
      state_.step = welcome.done;
    }
    isIn = welcome.isOpen || open();
  }
  startStep_ = state_.step;
  tellStart();
  computer_.prepare();
  enter();
  trainingStart_ = lastOrder_ = lastCheckpointTime_ = Clock::now();
  summary_.startupSeconds = secondsSince(processStart_);
  place_.activity.enter(Activity::Phase::Steps);
}

void CenterRun::work() {
  for (;;) {
    if (const std::optional<double> seconds = checkpoints_.takeSeconds())
      observer_.checkpointWritten(*seconds);
    place_.activity.wait(true);
    const Clock::time_point asked = Clock::now();
    const Order order = center_.next();
    waitSeconds_ += secondsSince(asked);
    place_.activity.wait(false);
    hear(order);
    if (order.kind == Order::Kind::Compute && stop_) throw LeaveWanted();  // the others go on
    tellGroup(order);
    if (order.kind == Order::Kind::Over) return;
    if (order.kind == Order::Kind::Open) {
      reopen();
    } else if (order.kind == Order::Kind::End) {
      end(order);
    } else {
      // Again and again: a server that was started again has not heard it.
      const bool isTimeOver = config_.maxTime > 0 && secondsSince(trainingStart_) >= config_.maxTime;
      if (isTimeOver) center_.halt();
      compute(order);
    }
  }
}

// ---- what everybody does

// Its group does the same, with the same weights.
void CenterRun::tellGroup(const Order& order) {
  using Kind = GroupOrder::Kind;
  GroupOrder told{.work = order.work,
                  .following = order.following,
                  .done = state_.step,
                  .isInterrupted = order.isInterrupted};
  switch (order.kind) {
    case Order::Kind::Compute: {
      const bool isRenewed = computer_.renewsWeights();
      told.isBeginning = order.isBeginning;
      told.hasWeights = order.isBeginning || isRenewed;
      break;
    }
    case Order::Kind::Open:
      told.kind = Kind::Open;
      break;
    case Order::Kind::End:
      told.kind = Kind::End;
      break;
    case Order::Kind::Over:
      told.kind = Kind::Over;
      break;
  }
  computer_.orders().give(told);
}

void CenterRun::compute(const Order& order) {
  // Where others step meanwhile, the next log point may be nearer than it seems.
  const Step ahead = isAlone() ? 2 * config_.workers : 1;
  const bool isLogged = recorder_ && crossed(state_.step, state_.step + ahead, report_.logInterval());
  const StepResult result = computer_.compute(order.work, order.isBeginning, order.following,
                                              isLogged ? recorder_->gradients() : std::span<float>());
  ++ownSteps_;
  if (crossed(lastTold_, state_.step, report_.logInterval()) || ownSteps_ == 1) {
    observer_.worked({.ownSteps = ownSteps_, .step = state_.step, .loss = result.loss.meanLoss()});
    lastTold_ = state_.step;
  }
}

// ---- what the chief does

// The whole run has gone on since the last order.
void CenterRun::hear(const Order& order) {
  if (order.kind == Order::Kind::Over || order.kind == Order::Kind::Open) return;
  isChief_ = order.state.isChief;
  const std::vector<std::string> notices = center_.takeNotices();
  if (isChief_) {
    for (const std::string& notice : notices) observer_.warned(notice);
  }
  const bool wentBack = order.state.done < state_.step;
  if (wentBack) {
    state_.step = order.state.done;
    startStep_ = std::min(startStep_, state_.step);
  }
  if (wentBack || !isChief_) forgetRecords();
  const Step before = state_.step;
  const Step steps = order.state.done - before;
  const double seconds = secondsSince(lastOrder_);
  lastOrder_ = Clock::now();
  state_.step = order.state.done;
  place_.activity.finishStep(state_.step);
  if (isChief_ && !recorder_) {
    state_.step = std::max(startStep_, before);
    RunConfig recorded = config_;
    if (!isExact()) recorded.receiptEvery = 0;
    recorder_ = std::make_unique<Recorder>(recorded, job_, alone_, owned_, state_, kGradientsTag);
    state_.step = order.state.done;
    report_.recordTo(*recorder_);
    job_.writeConfig(configText_);
    job_.writeLayers(toJson(computer_.model().layers()));
  }
  if (!isChief_ || steps <= 0) return;
  if (before == startStep_) report_.forgetTimes();
  report_.addSteps(before, state_.step, order.state.loss, seconds);
  if (crossed(before, state_.step, report_.logInterval()) || state_.step == target_)
    report_.logPoint(state_.step, totals());
  if (recorder_->wantsReceipt(state_.step)) recorder_->addReceipt(order.state.loss.meanLoss());
  if (order.kind != Order::Kind::Compute) return;
  if (crossed(before, state_.step, config_.evalEvery)) observer_.evaluated(evaluate());
  const bool isTime = interval_.seconds > 0 && secondsSince(lastCheckpointTime_) >= interval_.seconds;
  if (crossed(before, state_.step, interval_.steps) || isTime) checkpoint(false);
  place_.activity.enter(Activity::Phase::Steps);
}

// Weights and slots of one moment.
std::optional<Step> CenterRun::fetchSlots() {
  std::vector<CenterClient::ArenaToFill> arenas{{"weights", state_.weights.span()}};
  for (const Shard::Slot& slot : state_.shards.front().slots()) arenas.push_back({slot.name, slot.values});
  const std::optional<CenterClient::Fetched> fetched = center_.fetch(arenas);
  if (!fetched) return std::nullopt;
  state_.moment = fetched->moment;
  return fetched->version;
}

bool CenterRun::checkpoint(bool isLast) {
  const Clock::time_point start = Clock::now();
  place_.activity.enter(Activity::Phase::Checkpoint);
  recorder_->flush();
  checkpoints_.wait();  // the state is what it writes
  const std::optional<Step> version = fetchSlots();
  if (!version) return false;
  // At the end all steps are in the weights, but for those that a server's snapshot did not have. Exchanges are no steps.
  const Step done = std::exchange(state_.step, isLast || computer_.exchanges() ? state_.step : *version);
  // After a server's death the same number of steps may be another state.
  const bool isOther = lastMoment_.isKnown() && lastMoment_ != state_.moment;
  if (state_.step != lastCheckpoint_ || isOther) {
    lastMoment_ = state_.moment;
    if (isLast) {
      checkpoints_.saveNow(state_, configText_);
    } else {
      checkpoints_.save(state_, configText_);
    }
  }
  lastCheckpoint_ = state_.step;
  if (!isLast) state_.step = done;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
  observer_.checkpointed(state_.step);
  return true;
}

EvaluationPoint CenterRun::evaluate() {
  const Clock::time_point start = Clock::now();
  place_.activity.enter(Activity::Phase::Evaluation);
  if (config_.averageDecay > 0 || computer_.exchanges()) fetchSlots();
  const LossSum sums = evaluator_.run();
  summary_.evaluationSeconds += secondsSince(start);
  return report_.addEvaluation(state_.step, sums);
}

void CenterRun::end(const Order& order) {
  summary_.interrupted = order.isInterrupted;
  summary_.ending = order.isInterrupted ? Ending::Stopped : Ending::Done;
  if (!isChief_) return;
  place_.activity.enter(Activity::Phase::Ending);
  if (!checkpoint(true)) return;
  if (!summary_.interrupted) evaluate();
  recorder_->flush();
  constexpr double kPatience = 10;  // seconds
  try {
    summary_.center = fetchStatus(*place_.servers, kPatience);
  } catch (const PeerError& error) {  // no reason to lose all else
    observer_.warned(error.what());
  }
  const RunSummary summary = summarize();
  job_.writeLayers(toJson(computer_.model().layers()));
  job_.writeSummary(toJson(summary));
  center_.settle();
}

TimeShares CenterRun::totals() const {
  TimeShares times = computer_.times();
  times.wait += waitSeconds_;
  times.checkpoint = summary_.checkpointSeconds;
  times.evaluation = summary_.evaluationSeconds;
  return times;
}

RunSummary CenterRun::summarize() {
  RunSummary s = summary_;
  s.isChief = isChief_;
  report_.fill(s, state_.step);
  s.startStep = startStep_;
  s.threads = computer_.lanes().count();
  addTimes(s, totals());
  s.weightsHash = weightsHash(state_.weights.span());
  if (lastCheckpoint_ >= 0) s.checkpoint = checkpoints_.pathOf(lastCheckpoint_).string();
  return s;
}

}  // namespace

RunSummary runWithCenter(const RunContext& context, RunConfig config, const JobDirectory& job,
                         const StopFlag& stop, Clock::time_point processStart, RunObserver& observer,
                         const CenterPlace& place) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  config.chaos.clear();  // this command's wish, not the run's
  if (place.group != nullptr && !place.group->isFirst())
    return followGroup(context, std::move(config), stop, processStart, observer, place);
  CenterRun run(context, std::move(config), job, observer, stop, processStart, place);
  try {
    return run.train();
  } catch (...) {
    if (place.group != nullptr) place.group->halt();  // others may still send to what goes now
    throw;
  }
}

}  // namespace cohort
