#include "train/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/channel.h"
#include "engine/instruction_set.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "report/receipt_file.h"
#include "sync/bulk_synchronous.h"
#include "sync/local_steps.h"
#include "sync/slice_gather.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
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

constexpr int kChannel = 0;
// Above those of the rules.
constexpr int kAveragesTag = Communicator::kTags / 2;
constexpr int kGradientsTag = kAveragesTag + Communicator::kTags / 4;

// The first lines of two texts that differ, without spaces around them.
std::pair<std::string, std::string> firstDifference(const std::string& a, const std::string& b) {
  std::istringstream left(a);
  std::istringstream right(b);
  std::string l;
  std::string r;
  do {
    if (!std::getline(left, l)) l.clear();
    if (!std::getline(right, r)) r.clear();
  } while (l == r && (left || right));
  const auto trimmed = [](const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? std::string() : text.substr(begin);
  };
  return {trimmed(l), trimmed(r)};
}

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
        logInterval_(logInterval(config_, target_)),
        lanes_(laneCount(), coresOf(config_, place, laneCount())),
        model_(makeModel(context, config_, lanes_)),
        plan_(model_->layout(), workers_.size()),
        state_(makeState()),
        checkpoints_(job.checkpoints(), static_cast<int>(config_.keep), workers_),
        batches_(*data_.train, {.batchSize = config_.batchSize,
                                .grains = static_cast<int>(config_.grains),
                                .seed = config_.seed,
                                .shuffle = config_.shuffle && config_.randomness}),
        schedule_(shardOptions(config_, data_.train->size()).schedule),
        rule_(makeRule()) {
    configText_ = toYaml(config_);
  }

  RunSummary train(const StopFlag& stop);

 private:
  GrainRange ownGrains() const {
    return grainsOfWorker(static_cast<int>(config_.grains), workers_.rank(), workers_.size());
  }
  int laneCount() const { return lanesOf(config_, place_, ownGrains().count()); }
  bool isLocal() const { return config_.sync != "bsp"; }
  TrainingState makeState() const;
  std::unique_ptr<SyncRule> makeRule();
  void requireSameConfiguration() const;
  Wishes wishes(const StopFlag& stop, Clock::time_point begin) const;
  void restore();
  std::unique_ptr<Prefetcher> startPrefetcher() const;
  void loop(const StopFlag& stop);
  std::string diverged();
  void checkpoint();
  std::span<const float> evaluationWeights();
  LossSum evaluationSum();
  EvaluationPoint evaluate();
  void openRecords();
  void record(const auto& point);
  void flushRecords();
  bool logPointAfter(Step step) const { return step % logInterval_ == 0 || step == target_; }
  void report(const LossSum& sums);
  void logPoint();
  void writeReceipt(const LossSum& sums);
  void recordDistributions();
  StepLog::Totals totals() const;
  double learningRate(Step step) const;
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
  Step logInterval_;
  Lanes lanes_;
  std::unique_ptr<Model> model_;
  BucketPlan plan_;
  TrainingState state_;
  CheckpointStore checkpoints_;
  BatchSource batches_;
  Schedule schedule_;
  std::unique_ptr<SyncRule> rule_;
  std::unique_ptr<Prefetcher> prefetcher_;
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
  StepTimes times_;
  std::vector<double> losses_;  // of the last kRecent steps, by step modulo kRecent
  std::optional<LossSum> evaluation_;
  StepLog log_;
  FloatBuffer averages_;  // all workers' parts of a moving average, where one is kept
  std::unique_ptr<SliceGather> gatherAverages_;
  std::unique_ptr<SliceGather> gatherGradients_;
  FloatBuffer gradients_;  // the sums of the last step before a log point, where distributions are recorded
  std::vector<std::unique_ptr<RecordSink>> sinks_;
  std::optional<ReceiptFile> receipts_;
  bool evaluationRecorded_ = false;  // of startStep_
  RunSummary summary_;
};

TrainingState Run::makeState() const {
  ShardOptions options = shardOptions(config_, data_.train->size());
  const std::vector<ArenaRange> slices = plan_.slicesOf(workers_.rank());
  if (!isLocal()) return {model_->layout(), options, slices, config_.seed, lanes_.count()};
  options.grains = ownGrains().count();
  TrainingState state(model_->layout(), options, config_.seed, lanes_.count());
  state.ownSlots = {.rank = workers_.rank(), .size = workers_.size(), .slices = slices};
  if (config_.sync == "diloco" && config_.outerMomentum > 0) state.outer = FloatBuffer(state.layout.size());
  return state;
}

std::unique_ptr<SyncRule> Run::makeRule() {
  const int grains = static_cast<int>(config_.grains);
  const Wire wire = config_.wire == "fp16" ? Wire::Fp16 : Wire::Fp32;
  if (isLocal()) {
    LocalOptions options{.every = config_.avgFreq, .last = target_ - 1, .wire = wire};
    if (config_.sync == "diloco") {
      options.every = config_.innerSteps;
      options.outerRate = config_.outerLearningRate;
      options.outerMomentum = config_.outerMomentum;
    }
    return std::make_unique<LocalSteps>(workers_, state_.layout, plan_, state_.shards, state_.weights.span(),
                                        state_.outer.span(), grains, lanes_.count(), options);
  }
  if (workers_.size() == 1) {
    return std::make_unique<BulkSynchronous>(workers_, state_.layout, state_.shards, grains, lanes_.count());
  }
  return std::make_unique<ShardedBulkSynchronous>(workers_, state_.layout, plan_, state_.shards,
                                                  state_.weights.span(), grains, lanes_.count(), wire);
}

// Settings that change the result must be the same everywhere; a difference would show only as a wrong sum.
void Run::requireSameConfiguration() const {
  RunConfig shared = config_;
  shared.threads = 0;
  shared.dataThreads = -1;
  shared.pin = true;
  const std::string own = toYaml(shared);
  const std::vector<std::string> all = channel_.gather(own, "its configuration");
  std::string difference;
  for (std::size_t rank = 1; rank < all.size() && difference.empty(); ++rank) {
    if (all[rank] == own) continue;
    const auto [here, there] = firstDifference(own, all[rank]);
    difference =
        fmt::format("worker {} has '{}' where worker 0 has '{}'; start all workers with the same settings",
                    rank, there, here);
  }
  difference = channel_.broadcast(difference, "the comparison of configurations");
  if (!difference.empty()) throw UsageError(difference);
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
  const auto restored = checkpoints_.restoreLatest(
      state_, [this](const std::string& what) { observer_.warned(what + "; using the one before"); });
  if (restored) {
    lastCheckpoint_ = restored->step;
  } else if (workers_.isFirst() && !checkpoints_.list().empty()) {
    throw IoError(fmt::format("no checkpoint in {} is whole; move them away to start again",
                              job_.checkpoints().string()));
  } else if (!config_.initFrom.empty()) {
    initializeFrom(config_.initFrom, state_);
  }
  startStep_ = state_.step;
  place_.activity.finishStep(state_.step);
}

std::unique_ptr<Prefetcher> Run::startPrefetcher() const {
  std::vector<Prefetcher::LaneGrains> lanes;
  for (int lane = 0; lane < lanes_.count(); ++lane) {
    const GrainRange grains = rule_->grainsOf(lane);
    lanes.push_back({grains.first, grains.last});
  }
  return std::make_unique<Prefetcher>(batches_, lanes, state_.step,
                                      dataThreadsOf(config_, *data_.train, lanes_.count()));
}

void Run::openRecords() {
  if (config_.histograms) {
    gradients_ = FloatBuffer(state_.layout.size());
    // Each worker's own where it steps alone: the first one's are recorded.
    if (!isLocal())
      gatherGradients_ = std::make_unique<SliceGather>(workers_, plan_, gradients_.span(), kGradientsTag);
  }
  if (!workers_.isFirst()) return;
  auto metrics = std::make_unique<MetricsFile>(job_.path() / "metrics.jsonl", startStep_);
  evaluationRecorded_ = metrics->hasEvaluation(config_.evalOn);
  sinks_.push_back(std::move(metrics));
  sinks_.push_back(std::make_unique<EventFiles>(job_.path() / "events", startStep_));
  if (config_.receiptEvery > 0) receipts_.emplace(job_.path() / "receipt.jsonl", startStep_);
}

RunSummary Run::train(const StopFlag& stop) {
  interval_ = parseCheckpointInterval(config_.checkpointEvery);
  requireSameConfiguration();
  restore();
  if (workers_.isFirst()) job_.writeConfig(configText_);
  openRecords();
  const int threads = threadsOf(config_, place_);
  observer_.started({.network = config_.network,
                     .dataset = config_.dataset,
                     .parameters = state_.layout.weightCount(),
                     .batchSize = config_.batchSize,
                     .grains = config_.grains,
                     .workers = workers_.size(),
                     .lanes = lanes_.count(),
                     .idleLanes = threads - lanes_.count(),
                     .dataThreads = dataThreadsOf(config_, *data_.train, lanes_.count()),
                     .trainSamples = data_.train->size(),
                     .evaluationSamples = data_.evaluation->size(),
                     .startStep = startStep_,
                     .targetStep = target_ == std::numeric_limits<Step>::max() ? 0 : target_});
  if (state_.step < target_) {
    model_->prepareTraining(state_.weights.span());
    if (workers_.isFirst()) job_.writeLayers(toJson(model_->layers()));
    prefetcher_ = startPrefetcher();
    trainer_ = std::make_unique<Trainer>(lanes_, model_->trainables(), *rule_, *prefetcher_, place_.activity);
    loop(stop);
  }
  place_.activity.enter(Activity::Phase::Ending);
  flushRecords();
  if (state_.step != lastCheckpoint_) checkpoints_.saveNow(state_, configText_);
  lastCheckpoint_ = state_.step;
  checkpoints_.wait();
  if (!summary_.interrupted) evaluate();
  flushRecords();
  RunSummary summary = summarize();
  gatherWorkers(summary);
  if (!workers_.isFirst()) return summary;
  if (trainer_) job_.writeLayers(toJson(model_->layers()));
  job_.writeSummary(toJson(summary));
  return summary;
}

void Run::loop(const StopFlag& stop) {
  const Clock::time_point begin = Clock::now();
  lastCheckpointTime_ = begin;
  summary_.startupSeconds = secondsSince(processStart_);
  // Before the first step, all see the same: nobody stops here alone.
  place_.activity.enter(Activity::Phase::Steps);
  while (state_.step < target_) {
    // The first step touches all memory for the first time; a longer run's speed is told without it.
    if (state_.step == startStep_ + 1) times_ = StepTimes();
    const Clock::time_point start = Clock::now();
    rule_->keepGradients(config_.histograms && logPointAfter(state_.step + 1) ? gradients_.span()
                                                                              : std::span<float>());
    const StepResult result = trainer_->step(state_.step, wishes(stop, begin));
    const LossSum& sums = result.loss;
    const double seconds = secondsSince(start);
    times_.add(seconds);
    log_.add(sums, seconds);
    if (!std::isfinite(sums.loss)) {
      throw UsageError(diverged());
    }
    ++state_.step;
    place_.activity.finishStep(state_.step);
    report(sums);
    due_.wishes |= result.wishes;
    // The only worker need not tell others first.
    if (workers_.size() == 1) due_.wishes |= wishes(stop, begin);
    due_.evaluation |= config_.evalEvery > 0 && state_.step % config_.evalEvery == 0;
    due_.checkpoint |= interval_.steps > 0 && state_.step % interval_.steps == 0;
    due_.receipt |= receipts_ && state_.step % config_.receiptEvery == 0;
    const bool isCommon = rule_->isCommon(state_.step - 1);
    if (isCommon && std::exchange(due_.receipt, false)) writeReceipt(sums);
    if (logPointAfter(state_.step)) logPoint();
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
  flushRecords();
  checkpoints_.save(state_, configText_);
  lastCheckpoint_ = state_.step;
  lastCheckpointTime_ = Clock::now();
  summary_.checkpointSeconds += secondsSince(start);
  observer_.checkpointed(state_.step);
}

// The weights to evaluate: a moving average is in the workers' shards.
std::span<const float> Run::evaluationWeights() {
  if (workers_.size() == 1) return state_.shards.front().evaluationWeights();
  if (config_.averageDecay <= 0) return state_.weights.span();
  if (!gatherAverages_) {
    averages_ = FloatBuffer(state_.layout.size());
    gatherAverages_ = std::make_unique<SliceGather>(workers_, plan_, averages_.span(), kAveragesTag);
  }
  for (const Shard& shard : state_.shards) {
    std::ranges::copy(shard.evaluationWeights(), averages_.data() + shard.begin());
  }
  gatherAverages_->run("the averaged weights");
  return averages_.span();
}

// Each worker evaluates its share; the first one adds all in index order. The others see only their own.
LossSum Run::evaluationSum() {
  const std::vector<LossSum> own =
      model_->evaluate(*data_.evaluation, evaluationWeights(), {workers_.rank(), workers_.size()});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(own));
  LossSum total;
  for (const std::string& share : channel_.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                  "its part of an evaluation")) {
    for (std::size_t at = 0; at < share.size(); at += sizeof(LossSum)) {
      LossSum sum;
      std::memcpy(&sum, share.data() + at, sizeof(sum));
      total += sum;
    }
  }
  return total;
}

EvaluationPoint Run::evaluate() {
  const Clock::time_point start = Clock::now();
  place_.activity.enter(Activity::Phase::Evaluation);
  evaluation_ = evaluationSum();
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

// A worker without a slice of a very small network has no shard to ask.
double Run::learningRate(Step step) const {
  return config_.learningRate * schedule_.factor(step);
}

// Before every checkpoint: a process that resumes there records no earlier point again.
void Run::flushRecords() {
  for (const auto& sink : sinks_) sink->flush();
  if (receipts_) receipts_->flush();
}

StepLog::Totals Run::totals() const {
  const double lanes = lanes_.count();
  const PhaseSeconds seconds = trainer_->seconds();
  const double update = rule_->updateSeconds() / lanes;
  return {.seconds = {.data = seconds.data / lanes,
                      .forward = seconds.forward / lanes,
                      .backward = seconds.backward / lanes - update,
                      .update = update,
                      .wait = seconds.wait / lanes,
                      .checkpoint = summary_.checkpointSeconds,
                      .evaluation = summary_.evaluationSeconds},
          .elapsed = secondsSince(processStart_)};
}

// Parameters in the order of the layers, which is not the arena's.
void Run::writeReceipt(const LossSum& sums) {
  Receipt receipt{
      .step = state_.step, .loss = sums.meanLoss(), .weights = weightsHash(state_.weights.span())};
  if (config_.trace) {
    const std::span<const Parameter> parameters = state_.layout.parameters();
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      receipt.parameters.emplace_back(
          parameter->name, weightsHash(state_.weights.span().subspan(parameter->offset, parameter->size)));
    }
  }
  receipts_->add(receipt);
}

void Run::logPoint() {
  const double epoch =
      static_cast<double>(state_.step * config_.batchSize) / static_cast<double>(data_.train->size());
  const TrainPoint point = log_.take(state_.step, epoch, learningRate(state_.step - 1), totals());
  record(point);
  if (config_.histograms) recordDistributions();
  flushRecords();
  observer_.logged(point);
}

void Run::recordDistributions() {
  if (gatherGradients_) gatherGradients_->run("the gradients");
  if (!workers_.isFirst()) return;
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
       .learningRate = learningRate(state_.step - 1),
       .secondsLeft = known ? static_cast<double>((target_ - state_.step) * config_.batchSize) / speed : -1,
       .logPoint = logPointAfter(state_.step)});
}

// How each worker fared, on the first one.
void Run::gatherWorkers(RunSummary& summary) const {
  const double busy = times_.totalSeconds() - summary.waitSeconds;
  const double share = static_cast<double>(ownGrains().count()) / static_cast<double>(config_.grains);
  // Its own speed: its part of the batch, in the time that it did not wait for others.
  const double images = static_cast<double>(times_.steps()) * static_cast<double>(config_.batchSize) * share;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const WorkerSummary own{.host = host,
                          .lanes = lanes_.count(),
                          .imagesPerSecond = busy > 0 ? images / busy : 0,
                          .uncertainty = summary.speed.uncertainty * share,
                          .jitter = summary.speed.jitter * share,
                          .waitSeconds = summary.waitSeconds,
                          .communicationSeconds = workers_.busySeconds(),
                          .dataSeconds = summary.dataSeconds,
                          .peakMemoryBytes = summary.peakMemoryBytes};
  for (const std::string& text : channel_.gather(toJson(own), "its summary")) {
    summary.workers.push_back(workerSummary(text));
  }
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
    s.waitSeconds = seconds.wait;
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
                       const StopFlag& stop, Clock::time_point processStart, RunObserver& observer,
                       const WorkerPlace& place) {
  if (config.isa.empty()) config.isa = bestInstructionSet();
  useInstructionSet(config.isa);
  return Run(context, std::move(config), job, observer, processStart, place).train(stop);
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
