// From a recipe and layers of given settings to one configuration.
#include <algorithm>
#include <concepts>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/transform.h"
#include "train/config_file.h"
#include "train/older_names.h"
#include "train/run_config.h"
#include "train/strategy_file.h"

namespace cohort {
namespace {

struct ToText {
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& value) const {
    return fmt::format("{}", fmt::join(value, " "));
  }
  std::string operator()(const std::optional<double>& value) const {
    return value ? fmt::format("{}", *value) : std::string(kDefaultValue);
  }
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> std::string operator()(Number value) const {
    return fmt::format("{}", value);
  }
};

RunConfig fromRecipe(const Network& network) {
  const Recipe& recipe = network.recipe;
  RunConfig config;
  config.network = network.name;
  config.dataset = recipe.dataset;
  config.imageSize = recipe.imageSize;
  config.channels = recipe.channels;
  config.classes = recipe.classes;
  config.transforms = recipe.transforms;
  config.normalize = recipe.normalize;
  config.batchSize = recipe.batchSize;
  config.grains = recipe.grains;
  config.optimizer = recipe.optimizer;
  config.learningRate = recipe.learningRate;
  if (recipe.optimizer == "momentum" || recipe.optimizer == "nesterov") config.momentum = recipe.momentum;
  config.weightDecay = recipe.weightDecay;
  config.weightDecayFilter = recipe.weightDecayFilter;
  config.paramRules = recipe.paramRules;
  config.schedule = recipe.schedule;
  config.averageDecay = recipe.averageDecay;
  config.trainSteps = recipe.trainSteps;
  return config;
}

// What is given is looked at one by one; a recipe of somebody's own network comes without that.
void requireSizes(const RunConfig& recipe) {
  if (recipe.batchSize >= 1 && recipe.grains >= 1 && recipe.imageSize >= 1) return;
  throw UsageError(
      fmt::format("the recipe of {} needs a batch size, a number of grains and an image size of at least 1",
                  recipe.network));
}

// A batch size, and the grains that were chosen with it.
struct Cut {
  std::int64_t batch = 0;
  std::int64_t grains = 0;
};

// The height of what the transforms make of images of any size; 0 where it depends on them.
int sizeOf(const std::string& transforms) {
  return shapeAfter(parseTransforms(transforms), {}).height;
}

void applyLayer(RunConfig& config, Cut& cut, const GivenSettings& layer) {
  // A length replaces every length from below: '--epochs 3' alone is three epochs, not the recipe's steps.
  if (layer.contains("train-steps") || layer.contains("epochs") || layer.contains("max-time")) {
    config.trainSteps = 0;
    config.epochs = 0;
    config.maxTime = 0;
  }
  // Another optimizer does not inherit a momentum that was meant for the one below.
  const auto optimizer = layer.find("optimizer");
  if (optimizer != layer.end() && optimizer->second.back() != config.optimizer) config.momentum.reset();
  // Another division forgets all that was said of the one below; rules for single layers alone refine it.
  if (layer.contains("parallel") || layer.contains("mode")) {
    config.parallel = RunConfig{}.parallel;
    config.splits.clear();
    config.mesh.clear();
  }
  const int sizeBelow = sizeOf(config.transforms);
  applySettings(config, layer);
  if (layer.contains("transforms") && !layer.contains("image-size")) {
    // Who chooses other transforms means the size that they make; where they make none, the images' own.
    const int size = sizeOf(config.transforms);
    if (size != 0 || sizeBelow != 0) config.imageSize = size;
  }
  if (layer.contains("grains")) cut = {config.batchSize, config.grains};
}

// What a recipe says of images means nothing to computed samples.
void forgetImages(RunConfig& config, const Recipe& recipe) {
  if (config.dataset != "synthetic") return;
  if (config.transforms == recipe.transforms) config.transforms.clear();
  if (config.normalize == recipe.normalize) config.normalize.clear();
}

// Images have the number of classes that they have: 0 leaves it open until they are opened. A number that somebody gives is
// kept, and compared with theirs then.
bool leavesClassesOpen(const RunConfig& config, const GivenSettings& stored,
                       std::span<const GivenSettings> layers) {
  const auto gives = [](const GivenSettings& layer) { return layer.contains("classes"); };
  return config.dataset != "synthetic" && !gives(stored) && std::ranges::none_of(layers, gives);
}

// Grains for another batch than the one they were chosen with: as many for a smaller one, grains of the same size for a
// larger one (they are as fast as kernels get, and more of them let more cores and workers share the step); the largest
// number up to that which divides the batch.
std::int64_t grainsFor(std::int64_t batch, const Cut& cut) {
  if (batch == cut.batch) return cut.grains;
  std::int64_t grains = std::max(cut.grains, cut.grains * batch / cut.batch);
  while (grains > 1 && batch % grains != 0) --grains;
  return grains;
}

void refuseChanges(const RunConfig& stored, const RunConfig& wanted) {
  std::map<std::string, std::string, std::less<>> before;
  visitSettings(stored,
                [&](const Setting& setting, const auto& field) { before[setting.name] = ToText{}(field); });
  visitSettings(wanted, [&](const Setting& setting, const auto& field) {
    const std::string now = ToText{}(field);
    if (setting.defining && now != before[setting.name]) {
      throw UsageError(fmt::format(
          "this job directory was started with --{} {}, not {}; give the old value, or another --job-dir",
          setting.name, before[setting.name], now));
    }
  });
}

void requireDivision(const RunConfig& config) {
  if (config.batchSize % config.grains == 0) return;
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>(config.batchSize, 64); ++d) {
    if (config.batchSize % d == 0) divisors.push_back(d);
  }
  throw UsageError(fmt::format(
      "a batch of {} does not divide into {} grains; --grains {} would, or --batch-size {}", config.batchSize,
      config.grains, fmt::join(divisors, ", "), (config.batchSize / config.grains + 1) * config.grains));
}

// A mesh says how many workers there are, where nobody else does.
void applyMesh(RunConfig& config, const GivenSettings& stored, std::span<const GivenSettings> layers) {
  const auto gives = [](const GivenSettings& layer) { return layer.contains("workers"); };
  if (config.mesh.empty() || gives(stored) || std::ranges::any_of(layers, gives)) return;
  config.workers = meshOf(config, 1).workers();
}

// Virtual workers are all the workers that a run has.
void applyVirtual(RunConfig& config, std::span<const GivenSettings> layers) {
  if (config.virtualWorkers == 0) return;
  const auto gives = [](const GivenSettings& layer) { return layer.contains("workers"); };
  if (std::ranges::any_of(layers, gives)) {
    throw UsageError(fmt::format("--virtual {} says how many workers there are; leave --workers out",
                                 config.virtualWorkers));
  }
  config.workers = config.virtualWorkers;
}

// --batch-per-worker is another way to say --batch-size.
void applyBatchPerWorker(RunConfig& config, std::span<const GivenSettings> layers) {
  const std::int64_t each = std::exchange(config.batchPerWorker, 0);
  if (each == 0) return;
  const std::int64_t all = each * (stepsAlone(config) ? groupSize(config) : config.workers);
  const bool givesBoth = std::ranges::any_of(layers, [](const GivenSettings& layer) {
    return layer.contains("batch-size") && layer.contains("batch-per-worker");
  });
  if (givesBoth && config.batchSize != all) {
    throw UsageError(
        fmt::format("--batch-per-worker {} on {} workers is a batch of {}, not {}; give one of them", each,
                    all / each, all, config.batchSize));
  }
  config.batchSize = all;
}

bool fitsGrainsPerWorker(const RunConfig& config) {
  const std::vector<int> counts = parseGrainsPerWorker(config.grainsPerWorker, "--grains-per-worker");
  return static_cast<std::int64_t>(counts.size()) == config.workers &&
         std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == config.grains;
}

// What was said for other workers or grains is over with these.
void forgetGrainsPerWorker(RunConfig& config, std::span<const GivenSettings> layers) {
  const auto gives = [](const GivenSettings& layer) { return layer.contains("grains-per-worker"); };
  if (config.grainsPerWorker.empty() || std::ranges::any_of(layers, gives)) return;
  if (!fitsGrainsPerWorker(config)) config.grainsPerWorker.clear();
}

void requireGrainsPerWorker(const RunConfig& config) {
  if (config.grainsPerWorker.empty()) return;
  if (config.sync != "bsp" || hasCenter(config) || splitsModel(config)) {
    throw UsageError(
        fmt::format("--grains-per-worker is for --sync bsp without servers, where every worker has the whole "
                    "network; leave it "
                    "out: {}",
                    hasCenter(config)     ? "a center deals grains out by itself"
                    : splitsModel(config) ? "workers that divide layers compute every grain together"
                                          : fmt::format("with --sync {} workers are equals", config.sync)));
  }
  if (fitsGrainsPerWorker(config)) return;
  const std::vector<int> counts = parseGrainsPerWorker(config.grainsPerWorker, "--grains-per-worker");
  throw UsageError(fmt::format(
      "--grains-per-worker {} is {} grain{} on {} worker{}, and a step has {} on {}; give {} number{} that "
      "add up to {}",
      config.grainsPerWorker, std::accumulate(counts.begin(), counts.end(), std::int64_t{0}),
      counts.size() == 1 && counts.front() == 1 ? "" : "s", counts.size(), counts.size() == 1 ? "" : "s",
      config.grains, config.workers, config.workers, config.workers == 1 ? "" : "s", config.grains));
}

// The first rule that splits layers by model; null where none does.
const std::string* firstModelSplit(const RunConfig& config) {
  const auto found = std::ranges::find(config.splits, LayerSplit::Model, [](const std::string& split) {
    return parseSplitRule(split, "--split").split;
  });
  return found == config.splits.end() ? nullptr : &*found;
}

void requireDifferentSplits(const RunConfig& config) {
  std::set<std::string> patterns;
  for (const SplitRule& rule : strategyOf(config).rules) {
    if (patterns.insert(rule.pattern).second) continue;
    throw UsageError(
        fmt::format("--split has two rules for '{}', and the first would count; give one", rule.pattern));
  }
}

void requireMesh(const RunConfig& config) {
  const Mesh mesh = meshOf(config, 1);
  if (config.elastic) {
    throw UsageError(
        fmt::format("--mesh {} fixes the number of workers, which --elastic changes; leave one of them out",
                    config.mesh));
  }
  if (mesh.workers() != config.workers) {
    RunConfig without = config;
    without.mesh.clear();
    throw UsageError(fmt::format(
        "--mesh {} is for {} worker{}, not {}; give --workers {}, or a mesh of {}, such as --mesh {}",
        config.mesh, mesh.workers(), mesh.workers() == 1 ? "" : "s", config.workers, mesh.workers(),
        config.workers, toText(meshOf(without, static_cast<int>(config.workers)))));
  }
  if (mesh.model > 1 && !splitsModel(config)) {
    throw UsageError(fmt::format(
        "--mesh model={} needs layers that are split by model: give --parallel model or hybrid", mesh.model));
  }
}

// As far as it can be known before the data is opened: that the network's layers can be divided like that.
void requireLayers(const Network& network, const RunConfig& config) {
  if (!splitsModel(config) && config.splits.empty()) return;
  if (network.foreign) {
    throw UsageError(
        fmt::format("{} is a network of its own code, which cannot be divided by layers; use --parallel data",
                    config.network));
  }
  if (config.imageSize == 0 || config.channels == 0) return;
  const Shape input{.channels = config.channels, .height = config.imageSize, .width = config.imageSize};
  // Images that are not opened yet may have more classes than the recipe's.
  const std::int64_t classes =
      config.classes != 0 ? config.classes : std::max<std::int64_t>(network.recipe.classes, config.workers);
  requireDivisible(network.build(input, static_cast<int>(classes)), strategyOf(config),
                   meshOf(config, static_cast<int>(config.workers)).model);
}

// The network of the last layer that names one.
std::string networkOf(std::span<const GivenSettings> layers) {
  std::string name = RunConfig{}.network;
  for (const GivenSettings& layer : layers) {
    const auto found = layer.find("network");
    if (found != layer.end()) name = found->second.back();
  }
  return name;
}

}  // namespace

void requireRule(const RunConfig& config, const ExchangeRules& rules) {
  std::vector<std::string> names{"bsp", "local", "diloco", "async", "ssp", "backup", "group"};
  for (const std::string& name : rules.names()) names.push_back(name);
  requireWord("synchronisation rule", config.sync, names);
  std::vector<std::string> between{"async"};
  for (const std::string& name : rules.names()) between.push_back(name);
  requireWord("rule between groups", config.between, between);
}

bool hasCenter(const RunConfig& config) {
  return config.servers > 0 || (config.sync != "bsp" && config.sync != "local" && config.sync != "diloco");
}

bool exchanges(const RunConfig& config) {
  const std::string& rule = centerRule(config);
  return hasCenter(config) && rule != "bsp" && rule != "async" && rule != "ssp" && rule != "backup";
}

bool gossips(const RunConfig& config) {
  return centerRule(config) == "gossip";
}

bool stepsAlone(const RunConfig& config) {
  return centerRule(config) == "async" || centerRule(config) == "ssp" || exchanges(config);
}

void requireWorkers(const RunConfig& config) {
  const bool isLocal = config.sync == "local" || config.sync == "diloco";
  if (isLocal && config.servers > 0) {
    throw UsageError(
        fmt::format("--sync {} has no center; leave --servers out, or use bsp, async, ssp, backup, easgd, "
                    "gossip or group",
                    config.sync));
  }
  if (hasCenter(config) && config.wire != "fp32") {
    throw UsageError("--wire fp16 is for workers without a center; leave it out, or leave --servers out");
  }
  if (config.sync == "backup" && config.backups >= config.workers) {
    throw UsageError(fmt::format(
        "--backups {} of {} workers leaves nobody to wait for; --backups 0 to {} would do, or more --workers",
        config.backups, config.workers, config.workers - 1));
  }
  requireGrainsPerWorker(config);
  requireGroups(config);
  if ((isLocal || exchanges(config)) && config.averageDecay > 0) {
    throw UsageError(
        fmt::format("--average-decay needs weights that all workers share at every step, which --sync {} has "
                    "not; leave it out, or use --sync bsp",
                    config.sync));
  }
  if (stepsAlone(config)) return;  // there is nothing to divide
  if (isLocal && config.grains % config.workers != 0) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= config.grains; ++d) {
      if (config.grains % d == 0) divisors.push_back(d);
    }
    throw UsageError(fmt::format(
        "with --sync {} each worker needs as many grains as the others, and {} do not divide by {} "
        "workers; --workers {} would do",
        config.sync, config.grains, config.workers, fmt::join(divisors, ", ")));
  }
  if (config.workers <= config.grains) return;
  std::int64_t enough = config.workers;
  while (enough < config.batchSize && config.batchSize % enough != 0) ++enough;
  throw UsageError(fmt::format(
      "{} workers need a grain each, and a batch of {} in {} grains has too few; --workers 1 to {} "
      "would do, or {}",
      config.workers, config.batchSize, config.grains, config.grains,
      enough <= config.batchSize && config.batchSize % enough == 0
          ? fmt::format("--grains {}", enough)
          : fmt::format("a --batch-size of at least {}", config.workers)));
}

Strategy strategyOf(const RunConfig& config) {
  Strategy strategy = parseStrategy(config.parallel, "--parallel");
  for (const std::string& split : config.splits) strategy.rules.push_back(parseSplitRule(split, "--split"));
  return strategy;
}

Mesh meshOf(const RunConfig& config, int workers) {
  if (!config.mesh.empty()) return parseMesh(config.mesh, "--mesh");
  return splitsModel(config) ? Mesh{.data = 1, .model = workers} : Mesh{.data = workers, .model = 1};
}

bool splitsModel(const RunConfig& config) {
  return config.parallel != "data" || firstModelSplit(config) != nullptr;
}

void requireParallel(const RunConfig& config) {
  requireDifferentSplits(config);
  if (splitsModel(config) && (config.sync != "bsp" || hasCenter(config))) {
    throw UsageError(fmt::format(
        "--{} needs --sync bsp without servers: the workers that share a layer compute every step together; "
        "use --sync bsp and --servers 0, or --parallel data",
        config.parallel != "data" ? fmt::format("parallel {}", config.parallel)
                                  : fmt::format("split '{}'", *firstModelSplit(config))));
  }
  if (!config.mesh.empty()) requireMesh(config);
}

void requireVirtual(const RunConfig& config) {
  if (config.virtualWorkers == 0) {
    if (config.cluster.empty()) return;
    throw UsageError("--cluster is for workers in virtual time; give --virtual N too, or leave it out");
  }
  const auto refuse = [&](const char* what, const char* why) {
    throw UsageError(fmt::format("--virtual and {} do not go together: {}", what, why));
  };
  if (splitsModel(config) || !config.mesh.empty()) {
    refuse("--parallel, --split or --mesh", "virtual workers have whole networks; leave it out");
  }
  if (!config.grainsPerWorker.empty())
    refuse("--grains-per-worker", "virtual workers have equal parts; leave it out");
  if (config.wire != "fp32") refuse("--wire fp16", "gradients do not leave this process; leave it out");
  if (config.elastic)
    refuse("--elastic", "the file of --cluster says which workers fail, and whether they come back");
  if (!config.chaos.empty()) refuse("--chaos", "the file of --cluster says which workers fail");
  if (config.histograms) refuse("--histograms", "they are not kept for virtual workers; leave it out");
}

RunConfig resolveLayers(const NetworkRegistry& networks, const std::optional<std::string>& stored,
                        std::span<const GivenSettings> layers, const ExchangeRules& rules) {
  GivenSettings below;
  if (stored) {
    below = settingsFromYaml(*stored, "the job directory's config.yaml");
    takeStrategyFile(below);
  }
  const Network network = networks.find(networkOf(stored ? std::span(&below, 1) : layers));
  RunConfig config = fromRecipe(network);
  Cut cut{config.batchSize, config.grains};
  requireSizes(config);
  applyLayer(config, cut, below);
  config.grains = grainsFor(config.batchSize, cut);
  RunConfig before = config;
  for (const GivenSettings& layer : layers) applyLayer(config, cut, layer);
  if (!applyMode(layers, config)) applyMesh(config, below, layers);
  applyVirtual(config, layers);
  applyBatchPerWorker(config, layers);
  config.grains = grainsFor(config.batchSize, cut);
  applyOlderNames(layers, network, stored.has_value(), config);
  forgetImages(config, network.recipe);
  forgetGrainsPerWorker(config, layers);
  if (leavesClassesOpen(config, below, layers)) before.classes = config.classes = 0;
  if (stored) refuseChanges(before, config);
  requireRule(config, rules);
  requireDivision(config);
  requireWorkers(config);
  requireParallel(config);
  requireVirtual(config);
  requireLayers(network, config);
  return config;
}

RunConfig resolveConfig(const NetworkRegistry& networks, const std::optional<std::string>& stored,
                        const GivenSettings& given, const ExchangeRules& rules) {
  return resolveLayers(networks, stored, std::span(&given, 1), rules);
}

}  // namespace cohort
