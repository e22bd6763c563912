#include "train/layer_bench.h"

#include <algorithm>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "comm/channel.h"
#include "data/synthetic.h"
#include "graph/model_builder.h"
#include "train/divided_run.h"
#include "train/engine_model.h"
#include "train/statistics.h"
#include "train/training_state.h"
#include "train/worker_share.h"

namespace cohort {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kChannel = 0;

Graph denseGraph(const LayerBench& bench) {
  // Flat images: every worker reads those that it needs, and nobody sends them on.
  ModelBuilder b({.channels = bench.input.count()}, bench.outputs);
  b.softmaxLoss("loss", b.dense("layer", b.input(), {.outputs = bench.outputs}));
  return b.build();
}

Graph convGraph(const LayerBench& bench) {
  ModelBuilder b(bench.input, bench.outputs);
  const ValueId x =
      b.conv("layer", b.input(), {.outputs = bench.outputs, .kernel = bench.kernel, .stride = bench.stride});
  b.softmaxLoss("loss", b.globalAveragePool(x));
  return b.build();
}

Graph graphOf(const LayerBench& bench) {
  return bench.layer == LayerBench::Layer::Dense ? denseGraph(bench) : convGraph(bench);
}

// What one output is computed from.
std::int64_t fanIn(const LayerBench& bench) {
  return bench.layer == LayerBench::Layer::Dense ? bench.input.count()
                                                 : bench.input.channels * bench.kernel * bench.kernel;
}

int grainsOf(const LayerBench& bench) {
  return bench.lanes * bench.workers;
}

struct Field {
  const char* key;
  double LayerTimes::*value;
};
constexpr Field kFields[] = {
    {"forward_s", &LayerTimes::forward}, {"backward_s", &LayerTimes::backward},
    {"update_s", &LayerTimes::update},   {"communication_s", &LayerTimes::communication},
    {"step_s", &LayerTimes::step},       {"sent_bytes_per_step", &LayerTimes::sentBytes},
    {"loss", &LayerTimes::loss}};

LayerTimes difference(const LayerTimes& after, const LayerTimes& before) {
  LayerTimes times;
  for (const Field& field : kFields) times.*field.value = after.*field.value - before.*field.value;
  return times;
}

// The layer on one worker's lanes; each of these computes one unit of a step: its grain, or the round that workers compute
// together.
class LayerRun {
 public:
  LayerRun(const LayerBench& bench, Communicator& workers, const std::vector<int>& cores);

  // By step, the first one left out.
  std::vector<LayerTimes> run();

 private:
  struct Unit {
    FloatBuffer images;
    std::vector<std::int32_t> labels;
    std::int64_t position = 0;
  };

  bool isModel() const { return divided_ != nullptr; }
  std::int64_t grainSize() const { return bench_.batch / grainsOf(bench_); }
  std::int64_t unitSize() const { return isModel() ? grainSize() * bench_.workers : grainSize(); }
  std::unique_ptr<DividedRun> divided() const;
  TrainingState makeState() const;
  Unit makeUnit(int index) const;
  Batch batchOf(int lane) const;
  LayerTimes totals() const;

  LayerBench bench_;
  Communicator& workers_;
  Graph graph_;
  std::unique_ptr<DividedRun> divided_;  // by model
  Lanes lanes_;
  EngineModel model_;
  WorkerShare share_;
  TrainingState state_;
  std::unique_ptr<SyncRule> rule_;
  std::vector<Unit> units_;  // by lane
  Activity activity_;        // that nobody watches
  std::unique_ptr<Trainer> trainer_;
};

LayerRun::LayerRun(const LayerBench& bench, Communicator& workers, const std::vector<int>& cores)
    : bench_(bench),
      workers_(workers),
      graph_(graphOf(bench)),
      divided_(divided()),
      lanes_(bench.lanes, cores),
      model_(graph_, grainSize(), lanes_, kSeed, groupPartOf(divided_.get(), workers)),
      share_(workers, model_.layout(), divided_.get(), GrainDivision::equal(grainsOf(bench), workers.size())),
      state_(makeState()),
      rule_(share_.makeRule(state_, bench.lanes)) {
  model_.prepareTraining(state_.weights.span());
  for (int lane = 0; lane < bench.lanes; ++lane) {
    COHORT_CHECK(rule_->grainsOf(lane).count() == 1, "every lane has one unit");
    units_.push_back(makeUnit(rule_->grainsOf(lane).first));
  }
  trainer_ = std::make_unique<Trainer>(lanes_, model_.trainables(), *rule_, activity_);
}

std::unique_ptr<DividedRun> LayerRun::divided() const {
  if (bench_.mode != LayerBench::Mode::Model) return nullptr;
  const Division division{
      .strategy = Strategy::model(), .mesh = {.data = 1, .model = bench_.workers}, .rank = workers_.rank()};
  return std::make_unique<DividedRun>(divide(graph_, division, grainsOf(bench_)));
}

TrainingState LayerRun::makeState() const {
  // Small enough for inputs of any number: the loss only ever falls.
  ShardOptions options;
  options.optimizer.learningRate = 1 / static_cast<double>(fanIn(bench_));
  return {model_.layout(), options, share_.own(), kSeed, bench_.lanes};
}

LayerRun::Unit LayerRun::makeUnit(int index) const {
  const SampleShape shape{.channels = static_cast<int>(bench_.input.channels),
                          .height = static_cast<int>(bench_.input.height),
                          .width = static_cast<int>(bench_.input.width)};
  const SyntheticDataset samples(
      {.shape = shape, .classes = bench_.outputs, .size = bench_.batch, .seed = kSeed});
  const auto count = static_cast<std::size_t>(unitSize());
  Unit unit{.images = FloatBuffer(count * shape.count()),
            .labels = std::vector<std::int32_t>(count),
            .position = index * unitSize()};
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t sample = unit.position + static_cast<std::int64_t>(i);
    unit.labels[i] =
        samples.read(sample, sample, unit.images.span().subspan(i * shape.count(), shape.count()));
  }
  return unit;
}

Batch LayerRun::batchOf(int lane) const {
  const Unit& unit = units_[static_cast<std::size_t>(lane)];
  return {.images = unit.images.span(),
          .labels = unit.labels,
          .position = unit.position,
          .globalSize = bench_.batch,
          .grains = isModel() ? bench_.workers : 1};
}

// Since the first step's beginning.
LayerTimes LayerRun::totals() const {
  LayerTimes times = timesOf(trainer_->seconds(), bench_.lanes, model_.layers());
  times.sentBytes = static_cast<double>(workers_.sentBytes());
  return times;
}

std::vector<LayerTimes> LayerRun::run() {
  std::vector<LayerTimes> steps;
  for (Step step = 0; step <= bench_.steps; ++step) {
    const LayerTimes before = totals();
    const Clock::time_point start = Clock::now();
    const StepResult result =
        trainer_->step(step, [this](int lane, Step, GrainIndex) { return batchOf(lane); });
    const double seconds = secondsSince(start);
    // The first step touches all memory for the first time.
    if (step == 0) continue;
    steps.push_back(difference(totals(), before));
    steps.back().step = seconds;
    steps.back().loss = result.loss.meanLoss();
  }
  return steps;
}

LayerTimes medianOf(const std::vector<LayerTimes>& steps) {
  LayerTimes middle;
  for (const Field& field : kFields) {
    std::vector<double> values(steps.size());
    std::ranges::transform(steps, values.begin(),
                           [&](const LayerTimes& times) { return times.*field.value; });
    middle.*field.value = median(values);
  }
  middle.loss = steps.back().loss;
  return middle;
}

// On the first worker; the others' own.
LayerTimes meanOver(const Channel& workers, const LayerTimes& own) {
  const std::vector<std::string> all = workers.gather(toJson(own), "its times");
  if (all.empty()) return own;
  LayerTimes mean;
  for (const std::string& text : all) {
    const LayerTimes times = layerTimes(text, "a worker's times");
    for (const Field& field : kFields)
      mean.*field.value += times.*field.value / static_cast<double>(all.size());
  }
  return mean;
}

}  // namespace

void requireLayer(const LayerBench& bench) {
  const bool isAlone = bench.mode == LayerBench::Mode::None;
  if (isAlone != (bench.workers == 1)) {
    throw UsageError(isAlone ? "a layer that is not divided has one worker"
                             : "a layer is divided over 2 workers at least");
  }
  const int grains = grainsOf(bench);
  if (bench.batch < 1 || bench.batch % grains != 0) {
    throw UsageError(fmt::format(
        "a batch of {} does not divide into {} equal parts, one for each lane of {} worker{}; {} would",
        bench.batch, grains, bench.workers, isAlone ? "" : "s", (bench.batch / grains + 1) * grains));
  }
  if (bench.mode == LayerBench::Mode::Model && bench.outputs < bench.workers) {
    throw UsageError(fmt::format(
        "a layer of {} outputs cannot be divided over {} workers; use more outputs, or fewer workers",
        bench.outputs, bench.workers));
  }
  graphOf(bench);
}

LayerTimes timesOf(const PhaseSeconds& spent, int lanes, const LayerTable& layers) {
  LayerTimes times{.forward = spent.forward / lanes,
                   .backward = spent.backward / lanes,
                   .communication = spent.wait / lanes};
  for (const LayerRow& row : layers) {
    times.update += row.updateSeconds;
    times.backward -= row.updateSeconds;
    if (row.kind != "collective") continue;
    times.communication += row.forwardSeconds + row.backwardSeconds;
    times.forward -= row.forwardSeconds;
    times.backward -= row.backwardSeconds;
  }
  return times;
}

LayerTimes runLayer(const LayerBench& bench, Communicator& workers, const std::vector<int>& cores) {
  COHORT_CHECK(workers.size() == bench.workers, "there are as many workers as the layer is for");
  requireLayer(bench);
  LayerRun run(bench, workers, cores);
  try {
    return meanOver(Channel(workers, kChannel), medianOf(run.run()));
  } catch (...) {
    workers.halt();  // others may still send to what goes now
    throw;
  }
}

std::string toJson(const LayerTimes& times) {
  nlohmann::ordered_json json;
  for (const Field& field : kFields) json[field.key] = times.*field.value;
  return json.dump();
}

LayerTimes layerTimes(const std::string& text, const std::string& source) {
  LayerTimes times;
  try {
    const auto json = nlohmann::json::parse(text);
    for (const Field& field : kFields) json.at(field.key).get_to(times.*field.value);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{} cannot be read: {}", source, error.what()));
  }
  return times;
}

}  // namespace cohort
