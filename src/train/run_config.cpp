#include "train/run_config.h"

#include <charconv>
#include <cmath>
#include <concepts>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

std::string flagOf(const Setting& setting) {
  return fmt::format("--{}", setting.name);
}

template <class Number>
Number parseNumber(const std::string& text, const std::string& flag, const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{} takes {}, not '{}'", flag, what, text));
  }
  return value;
}

// One overload per type of field; `texts` has at least one element.
struct FromText {
  const Setting& setting;
  const std::vector<std::string>& texts;

  void operator()(std::string& field) const { field = texts.back(); }
  void operator()(std::vector<std::string>& field) const { field = texts; }
  void operator()(std::int64_t& field) const {
    field = parseNumber<std::int64_t>(texts.back(), flagOf(setting), "a whole number");
    if (field < 0) throw UsageError(fmt::format("{} cannot be negative, as {} is", flagOf(setting), field));
  }
  void operator()(std::uint64_t& field) const {
    field = parseNumber<std::uint64_t>(texts.back(), flagOf(setting), "a whole number from 0 on");
  }
  void operator()(double& field) const {
    if (std::string_view(setting.name) == "max-time") {
      field = parseDuration(texts.back(), flagOf(setting));
      return;
    }
    field = parseNumber<double>(texts.back(), flagOf(setting), "a number");
    if (!std::isfinite(field)) throw UsageError(fmt::format("{} must be finite", flagOf(setting)));
  }
  void operator()(std::optional<double>& field) const { (*this)(field.emplace()); }
  void operator()(bool& field) const {
    if (texts.back() != "true" && texts.back() != "false") {
      throw UsageError(fmt::format("{} is true or false, not '{}'", flagOf(setting), texts.back()));
    }
    field = texts.back() == "true";
  }
};

struct ToText {
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& value) const {
    return fmt::format("{}", fmt::join(value, " "));
  }
  std::string operator()(const std::optional<double>& value) const {
    return value ? fmt::format("{}", *value) : "its default";
  }
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> std::string operator()(Number value) const {
    return fmt::format("{}", value);
  }
};

void store(Json& json, const std::string& value) {
  json = value;
}
void store(Json& json, const std::vector<std::string>& value) {
  json = value;
}
void store(Json& json, const std::optional<double>& value) {
  json = value ? Json(*value) : Json(nullptr);
}
template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void store(Json& json, Number value) {
  json = value;
}

template <class Field>
void load(const Json& json, Field& field) {
  json.get_to(field);
}
void load(const Json& json, std::optional<double>& field) {
  field = json.is_null() ? std::nullopt : std::optional<double>(json.get<double>());
}

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

// A length given now replaces every length from before: '--epochs 3' alone is three epochs, not the recipe's steps.
void applyLengths(RunConfig& config, const GivenSettings& given) {
  if (given.contains("train-steps") || given.contains("epochs") || given.contains("max-time")) {
    config.trainSteps = 0;
    config.epochs = 0;
    config.maxTime = 0;
  }
}

// Another optimizer than the recipe's does not inherit a momentum that was meant for it.
void applyOptimizer(RunConfig& config, const GivenSettings& given) {
  const auto found = given.find("optimizer");
  if (found != given.end() && found->second.back() != config.optimizer) config.momentum.reset();
}

// What the recipe says of images means nothing to computed samples; and who chooses other transforms means the size that
// they make.
void applyData(RunConfig& config, const GivenSettings& given) {
  if (given.contains("image-size") && config.imageSize < 1) {
    throw UsageError(fmt::format("--image-size must be at least 1, not {}", config.imageSize));
  }
  if (config.dataset == "synthetic") {
    if (!given.contains("transforms")) config.transforms.clear();
    if (!given.contains("normalize")) config.normalize.clear();
  } else if (given.contains("transforms") && !given.contains("image-size")) {
    config.imageSize = 0;
  }
}

// Grains for another batch than the recipe's: as many for a smaller one, grains of the recipe's size for a larger one
// (they are as fast as kernels get, and more of them let more cores and workers share the step); the largest number up to
// that which divides the batch.
void adaptGrains(RunConfig& config, std::int64_t recipeBatch, const GivenSettings& given) {
  if (given.contains("grains") || config.batchSize < 1) return;
  config.grains = std::max(config.grains, config.grains * config.batchSize / recipeBatch);
  while (config.grains > 1 && config.batchSize % config.grains != 0) --config.grains;
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

// Far above any use, far below what the arithmetic of sizes can hold.
constexpr std::int64_t kMost = 1 << 24;

void checkRanges(const RunConfig& config) {
  const auto atLeastOne = [](std::int64_t value, const char* flag) {
    if (value < 1) throw UsageError(fmt::format("{} must be at least 1, not {}", flag, value));
  };
  atLeastOne(config.batchSize, "--batch-size");
  atLeastOne(config.grains, "--grains");
  atLeastOne(config.keep, "--keep");
  const auto atMost = [](std::int64_t value, const char* flag) {
    if (value > kMost) throw UsageError(fmt::format("{} can be {} at most, not {}", flag, kMost, value));
  };
  atMost(config.batchSize, "--batch-size");
  atMost(config.imageSize, "--image-size");
  atMost(config.channels, "--channels");
  atMost(config.classes, "--classes");
  atMost(config.keep, "--keep");
  if (config.epochs < 0) throw UsageError("--epochs cannot be negative");
  if (config.workers != 1) {
    throw UsageError(
        fmt::format("--workers {} is not possible yet: this version trains on 1 worker with all its cores",
                    config.workers));
  }
  if (config.threads > 256) throw UsageError("--threads can be 256 at most");
  if (config.batchSize % config.grains != 0) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(config.batchSize, 64); ++d) {
      if (config.batchSize % d == 0) divisors.push_back(d);
    }
    throw UsageError(
        fmt::format("a batch of {} does not divide into {} grains; --grains {} would, or --batch-size {}",
                    config.batchSize, config.grains, fmt::join(divisors, ", "),
                    (config.batchSize / config.grains + 1) * config.grains));
  }
}

}  // namespace

void applySettings(RunConfig& config, const GivenSettings& given) {
  visitSettings(config, [&](const Setting& setting, auto& field) {
    const auto found = given.find(setting.name);
    if (found != given.end()) FromText{setting, found->second}(field);
  });
}

RunConfig resolveConfig(const NetworkRegistry& networks, const std::optional<std::string>& storedJson,
                        const GivenSettings& given) {
  RunConfig config;
  if (storedJson) {
    config = configFromJson(*storedJson, "the job directory's config.json");
  } else {
    const auto name = given.find("network");
    config = fromRecipe(networks.find(name == given.end() ? config.network : name->second.back()));
  }
  const RunConfig before = config;
  applyLengths(config, given);
  applyOptimizer(config, given);
  applySettings(config, given);
  if (storedJson) {
    refuseChanges(before, config);
  } else {
    applyData(config, given);
    adaptGrains(config, before.batchSize, given);
  }
  checkRanges(config);
  return config;
}

std::string toJson(const RunConfig& config) {
  Json json = Json::object();
  visitSettings(config, [&](const Setting& setting, const auto& field) { store(json[setting.name], field); });
  return json.dump(2) + "\n";
}

RunConfig configFromJson(std::string_view text, const std::string& source) {
  RunConfig config;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw UsageError(fmt::format("{} is not a JSON object", source));
  visitSettings(config, [&](const Setting& setting, auto& field) {
    if (!json.contains(setting.name)) return;  // written by an older version: the default stays
    try {
      load(json.at(setting.name), field);
    } catch (const nlohmann::json::exception&) {
      throw UsageError(fmt::format("{}: the value of {} has the wrong type", source, setting.name));
    }
  });
  return config;
}

double parseDuration(std::string_view text, const std::string& flag) {
  double factor = 1;
  std::string digits(text);
  if (!digits.empty()) {
    const char unit = digits.back();
    factor = unit == 'm' ? 60 : unit == 'h' ? 3600 : 1;
    if (unit == 's' || unit == 'm' || unit == 'h') digits.pop_back();
  }
  const auto value = parseNumber<double>(digits, flag, "a time such as 90s, 10m or 2h");
  if (!std::isfinite(value) || value < 0)
    throw UsageError(fmt::format("{} takes a time, not '{}'", flag, text));
  return value * factor;
}

CheckpointInterval parseCheckpointInterval(const std::string& text) {
  if (!text.empty() && (text.back() == 's' || text.back() == 'm' || text.back() == 'h')) {
    return {.seconds = parseDuration(text, "--checkpoint-every")};
  }
  const auto steps = parseNumber<std::int64_t>(text, "--checkpoint-every", "steps or a time such as 600s");
  if (steps < 0) throw UsageError("--checkpoint-every cannot be negative");
  return {.steps = steps};
}

}  // namespace cohort
