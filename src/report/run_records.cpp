#include "report/run_records.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "base/atomic_file.h"
#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool isFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// ---- config.yaml

// Nodes as texts. Aliases let a few lines hold themselves, or twice the line before each: what no configuration needs is
// refused.
class NodeTexts {
 public:
  explicit NodeTexts(const fs::path& path) : path_(path) {}

  std::string of(const YAML::Node& node, int depth = 0) {
    constexpr int kDeepest = 32;
    constexpr std::size_t kLongest = std::size_t{1} << 20;
    taken_ += 1 + (node.IsScalar() ? node.Scalar().size() : 0);
    if (depth > kDeepest || taken_ > kLongest) {
      throw IoError(
          fmt::format("{} is no configuration: its lists and aliases go on for ever.", path_.string()));
    }
    if (node.IsScalar()) return node.Scalar();
    std::string text;
    if (node.IsSequence()) {
      for (const YAML::Node& item : node) text += (text.empty() ? "" : ", ") + of(item, depth + 1);
    } else if (node.IsMap()) {
      for (const auto& item : node) {
        text += (text.empty() ? "" : ", ") + of(item.first, depth + 1) + ": " + of(item.second, depth + 1);
      }
    }
    return text;
  }

 private:
  const fs::path& path_;
  std::size_t taken_ = 0;
};

SettingTexts readSettings(const fs::path& path) {
  const std::string text = readWholeFile(path);
  SettingTexts settings;
  NodeTexts texts(path);
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return {};
    if (!root.IsMap())
      throw IoError(fmt::format("{} has no settings: it is no map of names to values.", path.string()));
    for (const auto& item : root) {
      const std::string name = texts.of(item.first);
      if (!item.second.IsMap()) {
        settings.emplace_back(name, texts.of(item.second));
        continue;
      }
      for (const auto& inner : item.second) {
        settings.emplace_back(name + "." + texts.of(inner.first), texts.of(inner.second));
      }
    }
  } catch (const YAML::Exception& error) {
    throw IoError(fmt::format("{}:{}:{} is no YAML: {}.", path.string(), error.mark.line + 1,
                              error.mark.column + 1, error.msg));
  }
  return settings;
}

// ---- summary.json and layers.json

Json readJson(const fs::path& path) {
  Json json = Json::parse(readWholeFile(path), nullptr, false);
  if (json.is_discarded()) throw IoError(fmt::format("{} is no JSON.", path.string()));
  return json;
}

// A JSON object whose members must be of the right type where they exist.
class JsonObject {
 public:
  JsonObject(const Json& json, const fs::path& path) : json_(json), path_(path) {
    if (!json.is_object())
      throw IoError(fmt::format("{} has something else where an object must be.", path.string()));
  }

  double number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::numeric_limits<double>::quiet_NaN();
    if (!value->is_number()) fail(key, "number");
    return value->get<double>();
  }
  std::int64_t whole(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_integer()) fail(key, "whole number");
    return value->get<std::int64_t>();
  }
  std::string text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) fail(key, "text");
    return value->get<std::string>();
  }
  bool flag(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(key, "true or false");
    return value->get<bool>();
  }

 private:
  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void fail(const char* key, const char* wanted) const {
    throw IoError(fmt::format("\"{}\" in {} is no {}.", key, path_.string(), wanted));
  }

  const Json& json_;
  const fs::path& path_;
};

RunOutcome readOutcome(const fs::path& path) {
  const Json json = readJson(path);
  const JsonObject summary(json, path);
  return {.network = summary.text("network"),
          .dataset = summary.text("dataset"),
          .step = summary.whole("step"),
          .loss = summary.number("loss"),
          .accuracy = summary.number("accuracy"),
          .top5 = summary.number("top5"),
          .testLoss = summary.number("test_loss"),
          .elapsedSeconds = summary.number("elapsed_s"),
          .imagesPerSecond = summary.number("images_per_s"),
          .peakMemoryBytes = summary.number("peak_memory_bytes"),
          .threads = summary.whole("threads"),
          .seconds = {.data = summary.number("data_s"),
                      .forward = summary.number("forward_s"),
                      .backward = summary.number("backward_s"),
                      .update = summary.number("update_s"),
                      .wait = summary.number("wait_s"),
                      .checkpoint = summary.number("checkpoint_s"),
                      .evaluation = summary.number("evaluation_s")},
          .weightsHash = summary.text("weights_hash"),
          .interrupted = summary.flag("interrupted")};
}

std::vector<LayerRecord> readLayers(const fs::path& path) {
  const Json json = readJson(path);
  if (!json.is_array()) throw IoError(fmt::format("{} is no list of layers.", path.string()));
  std::vector<LayerRecord> layers;
  layers.reserve(json.size());
  for (const Json& item : json) {
    const JsonObject layer(item, path);
    layers.push_back({.name = layer.text("name"),
                      .operation = layer.text("operator"),
                      .kind = layer.text("kind"),
                      .output = layer.text("output"),
                      .parameters = layer.number("parameters"),
                      .multiplyAdds = layer.number("multiply_adds"),
                      .forwardSeconds = layer.number("forward_s"),
                      .backwardSeconds = layer.number("backward_s")});
  }
  return layers;
}

// ---- names

// The last `parts` parts of a path.
std::string nameOf(const fs::path& path, std::size_t parts) {
  const std::vector<fs::path> all(path.begin(), path.end());
  fs::path name;
  for (std::size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) name /= all[i];
  return name.string();
}

// "runs/a", "a/", "." -> an absolute path whose last part is the folder's name.
fs::path fullPath(const fs::path& path) {
  std::error_code ignored;
  fs::path full = fs::weakly_canonical(path, ignored);
  return full.has_filename() ? full : full.parent_path();
}

}  // namespace

std::string RunRecords::setting(const std::string& key) const {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& setting) { return setting.first == key; });
  return found == settings.end() ? "" : found->second;
}

RunRecords readRunRecords(const fs::path& jobDirectory) {
  const fs::path config = jobDirectory / "config.yaml";
  const fs::path metrics = jobDirectory / "metrics.jsonl";
  if (!isFile(config) && !isFile(metrics)) {
    throw UsageError(
        fmt::format("{} is no job directory: it has neither config.yaml nor metrics.jsonl; name the folder "
                    "that was --job-dir",
                    jobDirectory.string()));
  }
  RunRecords run{
      .name = nameOf(fullPath(jobDirectory), 1), .settings = {}, .metrics = {}, .outcome = {}, .layers = {}};
  if (isFile(config)) run.settings = readSettings(config);
  if (isFile(metrics)) run.metrics = readMetrics(metrics);
  if (isFile(jobDirectory / "summary.json")) run.outcome = readOutcome(jobDirectory / "summary.json");
  if (isFile(jobDirectory / "layers.json")) run.layers = readLayers(jobDirectory / "layers.json");
  return run;
}

std::vector<RunRecords> readRunRecords(std::span<const fs::path> jobDirectories) {
  std::vector<RunRecords> runs;
  std::vector<fs::path> paths;
  for (const fs::path& directory : jobDirectories) {
    const fs::path full = fullPath(directory);
    if (std::find(paths.begin(), paths.end(), full) != paths.end()) continue;
    runs.push_back(readRunRecords(directory));
    paths.push_back(full);
  }
  // Different paths differ in some part: each round takes one more where names are still the same.
  for (std::size_t parts = 2; parts < 64; ++parts) {
    std::map<std::string, int> uses;
    for (const RunRecords& run : runs) ++uses[run.name];
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (uses[runs[i].name] > 1) runs[i].name = nameOf(paths[i], parts);
    }
  }
  return runs;
}

}  // namespace cohort
