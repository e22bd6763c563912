#include "train/run_setup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include <fmt/format.h>
#include <sched.h>

#include "base/error.h"
#include "base/grain_tree.h"
#include "train/foreign_model.h"

namespace cohort {
namespace {

DatasetOptions datasetOptions(const RunContext& context, const RunConfig& config) {
  return {.directory = config.dataDir,
          .channels = static_cast<int>(config.channels),
          .imageSize = static_cast<int>(config.imageSize),
          .classes = static_cast<int>(config.classes),
          .samples = config.samples,
          .testSamples = config.testSamples,
          .seed = config.seed,
          .transforms = config.transforms,
          .normalize = config.normalize,
          .validationSplit = config.validationSplit,
          .testSplit = config.testSplit,
          .augment = config.randomness,
          .cacheDirectory = context.cacheDirectory};
}

std::unique_ptr<DataSource> openSource(const RunContext& context, const RunConfig& config,
                                       const DatasetOptions& options) {
  return context.datasets.find(config.dataset).open(options);
}

void takeShape(const Dataset& dataset, RunConfig& config) {
  config.channels = dataset.shape().channels;
  config.imageSize = dataset.shape().height;
}

void takeClasses(const Dataset& dataset, RunConfig& config) {
  if (config.classes == 0) config.classes = dataset.classes();
  if (config.classes == dataset.classes()) return;
  throw UsageError(
      fmt::format("{0} has {1} classes, but {2} are asked for; give --classes {1}, or leave it out",
                  config.dataset, dataset.classes(), config.classes));
}

Shape inputOf(const RunConfig& config) {
  return {.channels = config.channels, .height = config.imageSize, .width = config.imageSize};
}

// 1, 2, 5, 10, 20, 50, … : the smallest from `least` on.
Step roundUp(Step least) {
  for (Step power = 1;; power *= 10) {
    for (const Step digit : {1, 2, 5}) {
      if (power * digit >= least) return power * digit;
    }
  }
}

}  // namespace

Split parseSplit(const std::string& text, const std::string& flag) {
  if (text == "test") return Split::Test;
  if (text == "validation") return Split::Validation;
  if (text == "train") return Split::Train;
  throw UsageError(fmt::format("{} is test, validation or train, not '{}'", flag, text));
}

RunData openData(const RunContext& context, RunConfig& config) {
  const Split evaluated = parseSplit(config.evalOn, "--eval-on");
  if (evaluated == Split::Train) throw UsageError("--eval-on is test or validation, not 'train'");
  const auto source = openSource(context, config, datasetOptions(context, config));
  RunData data{.train = source->open(Split::Train), .evaluation = source->open(evaluated)};
  takeShape(*data.train, config);
  takeClasses(*data.train, config);
  if (data.evaluation->shape() != data.train->shape() || data.evaluation->classes() > data.train->classes()) {
    throw UsageError(fmt::format("the {} images of {} do not have the training images' size and classes",
                                 config.evalOn, config.dataset));
  }
  return data;
}

std::unique_ptr<Dataset> openForEvaluation(const RunContext& context, RunConfig& config, Split split) {
  DatasetOptions options = datasetOptions(context, config);
  options.augment = false;
  std::unique_ptr<Dataset> dataset = openSource(context, config, options)->open(split);
  takeShape(*dataset, config);
  // The network keeps the classes that it was trained with. Where a format counts labels, other splits may have fewer.
  if (dataset->classes() > config.classes) {
    throw UsageError(fmt::format("these images of {} have {} classes, but the run was trained with {}",
                                 config.dataset, dataset->classes(), config.classes));
  }
  return dataset;
}

std::optional<Graph> graphOf(const RunContext& context, const RunConfig& config) {
  const Network network = context.networks.find(config.network);
  if (network.foreign) return std::nullopt;
  Graph graph = network.build(inputOf(config), static_cast<int>(config.classes));
  if (!config.randomness) {
    for (Node& node : graph.nodes) {
      if (auto* dropout = std::get_if<Dropout>(&node.op)) dropout->rate = 0;
    }
  }
  return graph;
}

std::unique_ptr<Model> makeModel(const RunContext& context, const RunConfig& config, Lanes& lanes,
                                 std::optional<GroupPart> part) {
  const std::int64_t grainSize = config.batchSize / config.grains;
  if (const std::optional<Graph> graph = graphOf(context, config)) {
    return std::make_unique<EngineModel>(*graph, grainSize, lanes, config.seed, std::move(part));
  }
  return std::make_unique<ForeignLanes>(*context.networks.find(config.network).foreign, inputOf(config),
                                        static_cast<int>(config.classes), grainSize, lanes, config.seed);
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

ShardOptions centerShardOptions(const RunConfig& config, std::int64_t samples) {
  ShardOptions options = shardOptions(config, samples);
  if (exchanges(config)) options.optimizer = {};
  return options;
}

std::unique_ptr<OwnState> makeOwnState(const RunContext& context, const RunConfig& config,
                                       const ParameterLayout& layout, std::int64_t samples,
                                       std::span<const ArenaRange> slices) {
  const ExchangeSettings settings{.every = config.avgFreq,
                                  .alpha = config.alpha,
                                  .workers = static_cast<int>(config.workers) / groupSize(config),
                                  .probability = config.probability,
                                  .seed = config.seed};
  return std::make_unique<OwnState>(
      layout, shardOptions(config, samples),
      [&rules = context.rules, name = centerRule(config), settings] { return rules.make(name, settings); },
      std::vector<ArenaRange>(slices.begin(), slices.end()));
}

int threadsOf(const RunConfig& config, const WorkerPlace& place) {
  if (config.threads > 0) return static_cast<int>(config.threads);
  return place.cores.lanes;
}

std::vector<int> coresOf(const RunConfig& config, const WorkerPlace& place, int lanes) {
  return config.pin && lanes >= place.cores.cores ? place.cores.threads : std::vector<int>();
}

int lanesOf(const RunConfig& config, const WorkerPlace& place, int grains) {
  return std::min(threadsOf(config, place), grains);
}

int dataThreadsOf(const RunConfig& config, const Dataset& dataset, int lanes) {
  if (config.dataThreads >= 0) return static_cast<int>(config.dataThreads);
  return dataset.costly() ? std::max(1, lanes / 2) : 0;
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

std::optional<Step> restoreRun(const CheckpointStore& checkpoints, const RunConfig& config, bool isFirst,
                               TrainingState& state, RunObserver& observer) {
  const auto restored = checkpoints.restoreLatest(
      state, [&](const std::string& what) { observer.warned(what + "; using the one before"); });
  if (restored) return restored->step;
  const std::vector<CheckpointFile> damaged = isFirst ? checkpoints.list() : std::vector<CheckpointFile>();
  if (!damaged.empty()) {
    throw IoError(fmt::format("no checkpoint in {} is whole; move them away to start again",
                              damaged.front().path.parent_path().string()));
  }
  if (!config.initFrom.empty()) initializeFrom(config.initFrom, state);
  return std::nullopt;
}

RunObserver::Started startOf(const RunConfig& config, const RunData& data, const TrainingState& state,
                             int lanes, int threads, Step target) {
  return {.network = config.network,
          .dataset = config.dataset,
          .parameters = state.layout.weightCount(),
          .batchSize = config.batchSize,
          .grains = config.grains,
          .workers = static_cast<int>(config.workers),
          .lanes = lanes,
          .idleLanes = threads - lanes,
          .dataThreads = dataThreadsOf(config, *data.train, lanes),
          .trainSamples = data.train->size(),
          .evaluationSamples = data.evaluation->size(),
          .startStep = state.step,
          .targetStep = target == std::numeric_limits<Step>::max() ? 0 : target,
          .notes = {}};
}

Step logInterval(const RunConfig& config, Step target) {
  constexpr Step kMostLogPoints = 50;
  constexpr Step kWithoutEnd = 100;
  if (config.logEvery > 0) return config.logEvery;
  if (target == std::numeric_limits<Step>::max()) return kWithoutEnd;
  return roundUp((target + kMostLogPoints - 1) / kMostLogPoints);
}

}  // namespace cohort
