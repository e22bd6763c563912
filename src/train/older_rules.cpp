// What older names come to.
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "base/error.h"
#include "train/older_names.h"

namespace cohort {
namespace {

using Kind = OlderName::Kind;

bool isOneOf(std::string_view words, std::string_view value) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find('|'));
    if (std::ranges::equal(word, value, {}, {}, lower)) return true;
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return false;
}

template <class Number>
std::optional<Number> numberIn(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// An older program's devices: so many workers, which divide the network in that way.
struct DeviceMode {
  std::string_view name;
  std::int64_t workers = 1;
  std::string_view parallel;
};

constexpr DeviceMode kModes[] = {
    {"1dev", 1, "data"},
    {"2dev-data", 2, "data"},
    {"2dev-model", 2, "model"},
    {"2dev-model-data", 2, "hybrid"},
    {"4dev-data", 4, "data"},
    {"4dev-model", 4, "model"},
    {"4dev-model-data", 4, "hybrid"},
};

const DeviceMode* findMode(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kModes, [name](const DeviceMode& mode) { return isOneOf(mode.name, name); });
  return found == std::end(kModes) ? nullptr : found;
}

std::string modeNames() {
  std::string names;
  for (const DeviceMode& mode : kModes) {
    if (!names.empty()) names += &mode == std::end(kModes) - 1 ? " or " : ", ";
    names += mode.name;
  }
  return names;
}

// The translation of one layer.
class Translation {
 public:
  Translation(std::span<const OlderSetting> older, GivenSettings& given, std::vector<std::string>& notes)
      : older_(older), given_(given), notes_(notes) {}

  void run() {
    for (const OlderSetting& item : older_) translate(item, *findOlderName(item.name));
  }

 private:
  [[noreturn]] static void refuse(const OlderSetting& item, std::string_view text) {
    const bool isBare = findOlderName(item.name)->isSwitch && item.values.back() == "true";
    throw UsageError(
        fmt::format("{}{}{} {}", item.place, item.shown, isBare ? "" : " " + item.values.back(), text));
  }
  void note(const OlderSetting& item, std::string_view text) {
    notes_.push_back(fmt::format("{}{} has no effect: {}", item.place, item.shown, text));
  }
  bool switchOf(const OlderSetting& item) const {
    const std::optional<bool> value = parseSwitch(item.values.back());
    if (!value) refuse(item, "is neither true nor false");
    return *value;
  }
  const OlderSetting* find(std::string_view name) const {
    const auto found = std::ranges::find(older_, name, &OlderSetting::name);
    return found == older_.end() ? nullptr : &*found;
  }

  void set(const OlderSetting& item, std::string_view setting, const std::string& value);
  void translate(const OlderSetting& item, const OlderName& row);
  void combine(const OlderSetting& item);
  void chooseMode(const OlderSetting& item);
  void chooseOptimizer(const OlderSetting& item);
  void resume(const OlderSetting& item);

  std::span<const OlderSetting> older_;
  GivenSettings& given_;
  std::vector<std::string>& notes_;
};

void Translation::set(const OlderSetting& item, std::string_view setting, const std::string& value) {
  try {
    checkSetting(setting, {value}, item.shown);
  } catch (const UsageError& error) {
    throw UsageError(item.place + error.what());
  }
  const auto [place, isNew] = given_.try_emplace(std::string(setting), std::vector{value});
  if (isNew || place->second.back() == value) return;
  throw UsageError(fmt::format("{}{} {} is {} {} here, but that is {} already; give one of them", item.place,
                               item.shown, item.values.back(), setting, value, place->second.back()));
}

void Translation::translate(const OlderSetting& item, const OlderName& row) {
  switch (row.kind) {
    case Kind::Alias:
      return set(item, row.setting, item.values.back());
    case Kind::Accepted:
      if (!isOneOf(row.values, item.values.back())) refuse(item, row.text);
      return;
    case Kind::Noted:
      return note(item, row.text);
    case Kind::Combined:
      return combine(item);
  }
}

// 20, 40 -> piecewise:20=0.1,40=0.01: a tenth at each of these epochs.
std::string tenthsAt(const std::vector<std::string>& epochs) {
  std::string text = "piecewise:";
  std::string factor = "0.1";
  std::string all = fmt::format("{}", fmt::join(epochs, ","));
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(',', begin), all.size());
    text += fmt::format("{}{}={}", begin == 0 ? "" : ",", all.substr(begin, end - begin), factor);
    factor.insert(2, "0");
    begin = end + 1;
  }
  return text;
}

void Translation::combine(const OlderSetting& item) {
  const std::string& value = item.values.back();
  const std::string_view name = item.name;
  if (name == "num-layers") {
    if (!numberIn<unsigned>(value)) refuse(item, "is no number of layers");
    set(item, "network", "resnet" + value);
  } else if (name == "use-distortion-for-training") {
    set(item, "transforms", switchOf(item) ? "pad-crop:4,flip" : "none");
  } else if (name == "name") {
    if (isOneOf("alexnet|googlenet|vggnet", value)) {
      set(item, "network", value == "alexnet" ? "alexnet-lrn" : value == "vggnet" ? "vgg16" : value);
    } else {
      refuse(item, "is no network here; give network instead ('cohort describe --list' names them)");
    }
  } else if (name == "image-mean") {
    if (!isOneOf("img_mean|rgb_mean", value)) refuse(item, "is not known; give --normalize");
    set(item, "normalize", isOneOf("img_mean", value) ? "mean-image" : "dataset");
  } else if (name == "lr-step") {
    set(item, "schedule", tenthsAt(item.values));
  } else if (name == "use-momentum" || name == "use-nesterov-momentum") {
    chooseOptimizer(item);
  } else if (name == "mode") {
    chooseMode(item);
  } else if (name == "resume-train" || name == "load-epoch" || name == "load-path") {
    resume(item);
  } else if (name == "rand-crop") {
    if (given_.contains("transforms")) refuse(item, "is a matter of transforms here, which are given too");
    given_[item.name] = {switchOf(item) ? "true" : "false"};
  } else if (name == "print-info-every") {
    const auto images = numberIn<std::int64_t>(value);
    if (!images || *images < 1) refuse(item, "is no number of images");
    if (given_.contains("log-every")) refuse(item, "is log-every here, which is given too");
    given_[item.name] = {value};
  } else {  // batch-norm-decay, batch-norm-epsilon
    if (!numberIn<double>(value)) refuse(item, "is no number");
    given_[item.name] = {value, item.place + item.shown};
  }
}

void Translation::chooseMode(const OlderSetting& item) {
  const std::string& value = item.values.back();
  const DeviceMode* mode = findMode(value);
  if (mode == nullptr) refuse(item, fmt::format("is not known; it is {}", modeNames()));
  given_[item.name] = {value, item.place + item.shown};
  if (mode->workers == 1) return;
  notes_.push_back(fmt::format("{}{} {}: --batch-size is the whole batch here, not one device's", item.place,
                               item.shown, value));
}

void Translation::chooseOptimizer(const OlderSetting& item) {
  const OlderSetting* momentum = find("use-momentum");
  const OlderSetting* nesterov = find("use-nesterov-momentum");
  const bool hasMomentum = momentum == nullptr || switchOf(*momentum);
  const bool isNesterov = nesterov != nullptr && switchOf(*nesterov);
  if (!hasMomentum && isNesterov) refuse(item, "cannot be: use_nesterov_momentum needs use_momentum");
  set(item, "optimizer", isNesterov ? "nesterov" : hasMomentum ? "momentum" : "sgd");
}

void Translation::resume(const OlderSetting& item) {
  const OlderSetting* wanted = find("resume-train");
  const bool resumes = wanted != nullptr && switchOf(*wanted);
  if (&item == wanted) {
    given_[item.name] = {resumes ? "true" : "false"};
  } else if (resumes) {
    refuse(item,
           "is not possible: a run goes on from the newest checkpoint in its --job-dir; "
           "--init-from FILE starts from other weights");
  } else {
    note(item, "resume_train is not true");
  }
}

const BatchNorm* batchNormOf(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (const auto* norm = std::get_if<BatchNorm>(&node.op)) return norm;
  }
  return nullptr;
}

// `given` has the value and what the user calls it.
void requireBatchNorm(const Network& network, const std::vector<std::string>& given,
                      float BatchNorm::*field) {
  const Recipe& recipe = network.recipe;
  const Graph graph = network.build(
      {.channels = recipe.channels, .height = recipe.imageSize, .width = recipe.imageSize}, recipe.classes);
  const BatchNorm* norm = batchNormOf(graph);
  if (norm == nullptr) {
    throw UsageError(fmt::format("{} {} is not possible: {} has no batch normalisation", given[1], given[0],
                                 network.name));
  }
  if (static_cast<float>(*numberIn<double>(given[0])) != norm->*field) {
    throw UsageError(fmt::format("{} {} is not possible yet: it is {} in {}; leave it out", given[1],
                                 given[0], norm->*field, network.name));
  }
}

// The last layer's value of `name`, unless a layer above, or the same, gives one of `instead`.
const std::vector<std::string>* lastGiven(std::span<const GivenSettings> layers, std::string_view name,
                                          std::initializer_list<std::string_view> instead = {}) {
  const std::vector<std::string>* last = nullptr;
  for (const GivenSettings& layer : layers) {
    const auto found = layer.find(name);
    if (found != layer.end()) last = &found->second;
    if (std::ranges::any_of(instead, [&](std::string_view other) { return layer.contains(other); }))
      last = nullptr;
  }
  return last;
}

// `given` has the mode and what the user calls it.
void requireWorkersOf(const DeviceMode& mode, const std::vector<std::string>& given,
                      const std::string& workers) {
  if (numberIn<std::int64_t>(workers) == mode.workers) return;
  throw UsageError(fmt::format(
      "{} {} is for {} worker{}, not {}; leave --workers out, or give --parallel {} with any number",
      given[1], given[0], mode.workers, mode.workers == 1 ? "" : "s", workers, mode.parallel));
}

}  // namespace

void translateOlderNames(std::span<const OlderSetting> older, GivenSettings& given,
                         std::vector<std::string>& notes) {
  Translation(older, given, notes).run();
}

bool applyMode(std::span<const GivenSettings> layers, RunConfig& config) {
  const std::vector<std::string>* given = lastGiven(layers, "mode", {"parallel"});
  if (given == nullptr) return false;
  const DeviceMode& mode = *findMode(given->front());
  const std::string& shown = given->back();
  if (config.elastic) {
    throw UsageError(fmt::format(
        "{} fixes the number of workers, which --elastic changes; use --parallel {} and --workers {}", shown,
        mode.parallel, mode.workers));
  }
  for (const GivenSettings& layer : layers) {
    const auto workers = layer.find("workers");
    if (workers != layer.end()) requireWorkersOf(mode, *given, workers->second.back());
  }
  config.parallel = mode.parallel;
  config.workers = mode.workers;
  return true;
}

void applyOlderNames(std::span<const GivenSettings> layers, const Network& network, bool resumes,
                     RunConfig& config) {
  const auto* resume = lastGiven(layers, "resume-train");
  if (resumes && resume != nullptr && resume->back() == "false") {
    throw UsageError(
        "resume_train is false, but this job directory has a run already; give another --job-dir, or leave "
        "it out");
  }
  if (const auto* images = lastGiven(layers, "print-info-every", {"log-every"})) {
    config.logEvery = std::max<std::int64_t>(1, *numberIn<std::int64_t>(images->back()) / config.batchSize);
  }
  if (const auto* crop = lastGiven(layers, "rand-crop", {"transforms"})) {
    config.transforms = crop->back() == "true"
                            ? fmt::format("resize:256,random-crop:{},flip", config.imageSize)
                            : fmt::format("resize:256,center-crop:{}", config.imageSize);
  }
  if (const auto* decay = lastGiven(layers, "batch-norm-decay")) {
    requireBatchNorm(network, *decay, &BatchNorm::decay);
  }
  if (const auto* epsilon = lastGiven(layers, "batch-norm-epsilon")) {
    requireBatchNorm(network, *epsilon, &BatchNorm::epsilon);
  }
}

}  // namespace cohort
