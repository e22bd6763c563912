#include "train/run_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/normalization.h"
#include "data/split.h"
#include "data/transform.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/older_names.h"

namespace cohort {
namespace {

// Far above any use, far below what the arithmetic of sizes and steps can hold.
constexpr double kMostItems = 1e7;
constexpr double kMostSamples = 1e12;
constexpr double kMostSteps = 1e15;

struct Range {
  std::string_view name;
  double least = 0;
  double most = 0;
};

constexpr Range kRanges[] = {
    {"image-size", 1, kMostItems},
    {"channels", 0, kMostItems},
    {"classes", 0, kMostItems},
    {"samples", 0, kMostSamples},
    {"test-samples", 0, kMostSamples},
    {"batch-size", 1, kMostItems},
    {"grains", 1, kMostItems},
    {"lr", 0, 1e6},
    {"momentum", 0, 1},
    {"weight-decay", 0, 1e6},
    {"average-decay", 0, 1},
    {"train-steps", 0, kMostSteps},
    {"epochs", 0, 1e6},
    {"max-time", 0, 1e9},
    {"keep", 1, kMostItems},
    {"eval-every", 0, kMostSteps},
    {"log-every", 0, kMostSteps},
    {"receipt-every", 0, kMostSteps},
    {"threads", 0, 256},
    {"workers", 1, 4096},
    {"virtual", 0, 4096},
    {"batch-per-worker", 0, kMostItems},
    {"max-restarts", 0, kMostItems},
    {"avg-freq", 1, kMostSteps},
    {"alpha", 0, 1},
    {"probability", 0, 1},
    {"inner-steps", 1, kMostSteps},
    {"outer-lr", 0, 1e6},
    {"outer-momentum", 0, 1},
    {"stall-timeout", 1, 1e9},
    {"servers", 0, 1024},
    {"staleness", 0, kMostSteps},
    {"backups", 0, 4095},
    {"groups", 0, 4096},
    {"recovery-wait", 0, 1e9},
    {"snapshot-every", 0, 1e9},
    {"data-threads", -1, 256},
};

// Whole numbers without an exponent.
std::string rangeText(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

template <class Number>
void checkRange(std::string_view name, Number value, const std::string& shown) {
  const auto* const range = std::ranges::find(kRanges, name, &Range::name);
  if (range == std::end(kRanges)) return;
  const auto number = static_cast<double>(value);
  if (number >= range->least && number <= range->most) return;
  throw UsageError(fmt::format("{} must be from {} to {}, not {}", shown, rangeText(range->least),
                               rangeText(range->most), value));
}

template <class Number>
Number parseNumber(const std::string& text, const std::string& shown, const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{} takes {}, not '{}'", shown, what, text));
  }
  return value;
}

std::vector<std::string> optimizerNames() {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(OptimizerKind::Adam); ++kind) {
    names.emplace_back(optimizerName(static_cast<OptimizerKind>(kind)));
  }
  return names;
}

// The standard library compiles an expression by recursion, character by character, and lets numbers in it overflow.
void checkSplit(const std::string& text, const std::string& shown) {
  constexpr std::size_t kLongest = 256;
  constexpr std::size_t kMostDigits = 9;
  if (text.size() > kLongest) {
    throw UsageError(
        fmt::format("{} has a rule of {} characters; {} are the most", shown, text.size(), kLongest));
  }
  std::size_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > kMostDigits) {
      throw UsageError(fmt::format("{} has a number of more than {} digits: '{}'", shown, kMostDigits, text));
    }
  }
  parseSplitRule(text, shown);
}

void checkMesh(const std::string& text, const std::string& shown) {
  if (!text.empty()) checkRange("workers", parseMesh(text, shown).workers(), shown + ": its workers");
}

// Texts that have a form, looked at where they are given, so that the message can name the place.
void checkText(std::string_view name, const std::string& text, const std::string& shown) {
  if (name == "transforms") {
    parseTransforms(text);
  } else if (name == "normalize") {
    parseNormalization(text);
  } else if (name == "validation-split" || name == "test-split") {
    parseSplitPart(text, fmt::format("--{}", name));
  } else if (name == "optimizer") {
    requireWord("optimizer", text, optimizerNames());
  } else if (name == "wire") {
    requireWord("wire format", text, {"fp32", "fp16"});
  } else if (name == "eval-on") {
    requireWord("split", text, {"test", "validation"});
  } else if (name == "parallel") {
    parseStrategy(text, shown);
  } else if (name == "split") {
    checkSplit(text, shown);
  } else if (name == "mesh") {
    checkMesh(text, shown);
  } else if (name == "grains-per-worker") {
    if (!text.empty()) parseGrainsPerWorker(text, shown);
  } else if (name == "schedule") {
    parseSchedule(text, {.samples = 1000, .batch = 1});
  } else if (name == "param-rule") {
    parseParamRule(text);
  } else if (name == "chaos" && !text.empty()) {
    parseNumber<std::uint64_t>(text, "--chaos", "a whole number from 0 on");
  }
}

// One overload per type of field. A list may be empty, everything else has at least one text, and the last counts.
struct FromText {
  const Setting& setting;
  const std::vector<std::string>& texts;
  const std::string& shown;

  void operator()(std::string& field) const {
    field = todaysValue(setting.name, texts.back());
    requireUtf8(field);
    checkText(setting.name, field, shown);
    if (std::string_view(setting.name) == "checkpoint-every") parseCheckpointInterval(field, shown);
  }
  void operator()(std::vector<std::string>& field) const {
    field = texts;
    for (const std::string& text : field) {
      requireUtf8(text);
      checkText(setting.name, text, shown);
    }
  }
  void operator()(std::int64_t& field) const {
    field = parseNumber<std::int64_t>(texts.back(), shown, "a whole number");
    checkRange(setting.name, field, shown);
  }
  void operator()(std::uint64_t& field) const {
    field = parseNumber<std::uint64_t>(texts.back(), shown, "a whole number from 0 on");
  }
  void operator()(double& field) const {
    const std::string_view name = setting.name;
    field =
        name == "max-time" || name == "stall-timeout" || name == "recovery-wait" || name == "snapshot-every"
            ? parseDuration(texts.back(), shown)
            : parseNumber<double>(texts.back(), shown, "a number");
    if (!std::isfinite(field)) throw UsageError(fmt::format("{} must be finite", shown));
    checkRange(setting.name, field, shown);
  }
  void operator()(std::optional<double>& field) const {
    field.reset();
    if (texts.back() != kDefaultValue) (*this)(field.emplace());
  }
  void operator()(bool& field) const {
    const std::optional<bool> value = parseSwitch(texts.back());
    if (!value) throw UsageError(fmt::format("{} is true or false, not '{}'", shown, texts.back()));
    field = *value;
  }
  void requireUtf8(const std::string& text) const {
    if (!isUtf8(text)) throw UsageError(fmt::format("{} has a value that is not UTF-8", shown));
  }
};

// Whether the setting called `name` has a field of type Field.
template <class Field>
bool hasType(std::string_view name) {
  bool found = false;
  RunConfig any;
  visitSettings(any, [&](const Setting& setting, auto& field) {
    found |= name == setting.name && std::is_same_v<std::decay_t<decltype(field)>, Field>;
  });
  return found;
}

}  // namespace

std::vector<std::string> settingNames() {
  std::vector<std::string> names;
  RunConfig any;
  visitSettings(any, [&](const Setting& setting, auto&) { names.emplace_back(setting.name); });
  return names;
}

bool isSetting(std::string_view name) {
  return std::ranges::count(settingNames(), name) > 0;
}

bool isList(std::string_view name) {
  return hasType<std::vector<std::string>>(name);
}

bool isSwitch(std::string_view name) {
  return hasType<bool>(name);
}

void applySettings(RunConfig& config, const GivenSettings& given) {
  visitSettings(config, [&](const Setting& setting, auto& field) {
    const auto found = given.find(setting.name);
    if (found != given.end()) FromText{setting, found->second, fmt::format("--{}", setting.name)}(field);
  });
}

void checkSetting(std::string_view name, const std::vector<std::string>& values, const std::string& shown) {
  RunConfig scratch;
  visitSettings(scratch, [&](const Setting& setting, auto& field) {
    if (name == setting.name) FromText{setting, values, shown}(field);
  });
}

std::vector<int> parseGrainsPerWorker(std::string_view text, const std::string& flag) {
  constexpr std::size_t kMostWorkers = 4096;
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part(text.substr(begin, comma - begin));
    const int count = parseNumber<int>(part, flag, "a number of grains for each worker, such as 4,2,2");
    if (count < 1 || count > kMostItems) {
      throw UsageError(fmt::format("{} needs at least one grain for each worker, and at most {}, not {}",
                                   flag, rangeText(kMostItems), count));
    }
    counts.push_back(count);
    if (counts.size() > kMostWorkers) {
      throw UsageError(fmt::format("{} names more than {} workers", flag, kMostWorkers));
    }
    begin = comma + 1;
  }
  return counts;
}

bool isUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0U) != 0x80) return false;
    }
    // Too long for what they say, surrogates, and beyond the last character.
    const unsigned second = length > 1 ? byte(i + 1) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

std::optional<bool> parseSwitch(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
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

CheckpointInterval parseCheckpointInterval(const std::string& text, const std::string& flag) {
  if (!text.empty() && (text.back() == 's' || text.back() == 'm' || text.back() == 'h')) {
    return {.seconds = parseDuration(text, flag)};
  }
  const auto steps = parseNumber<std::int64_t>(text, flag, "steps or a time such as 600s");
  if (steps < 0) throw UsageError(fmt::format("{} cannot be negative", flag));
  return {.steps = steps};
}

}  // namespace cohort
