#include "train/strategy_file.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "train/yaml_text.h"

namespace cohort {
namespace {

constexpr std::size_t kMostRules = 1000;

class StrategyReader {
 public:
  explicit StrategyReader(const std::string& source) : source_(source) {}

  std::vector<std::string> read(std::string_view text) {
    requireYamlDocument(text, source_, "strategy");
    const YAML::Node root = YAML::Load(std::string(text));
    if (root.IsNull() || (root.IsMap() && root.size() == 0)) {
      throw UsageError(fmt::format("{} has no layers; write one a line, as in 'fc1: model'", source_));
    }
    if (!root.IsMap()) refuse(root.Mark(), "a strategy has lines such as 'fc1: model'");
    try {
      for (const auto& entry : root) readRule(entry.first, entry.second);
    } catch (const YAML::Exception& error) {
      refuse(error.mark, fmt::format("this is not YAML: {}", error.msg));
    }
    return std::move(splits_);
  }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& sentence) const {
    throw UsageError(yamlPlace(source_, mark.line, mark.column) + sentence);
  }

  void readRule(const YAML::Node& layer, const YAML::Node& split) {
    if (!layer.IsScalar()) {
      refuse(layer.Mark(), "a layer is one text; an expression such as '[ab].*' needs quotes around it");
    }
    const std::string& name = layer.Scalar();
    if (name.empty()) refuse(layer.Mark(), "a layer has a name, or a regular expression that it fits");
    requireNew(name, layer.Mark());
    const std::string how = split.IsScalar() ? split.Scalar() : "";
    if (how != "data" && how != "model") {
      refuse(split.IsNull() ? layer.Mark() : split.Mark(),
             fmt::format("{} is data or model{}", name, how.empty() ? "" : fmt::format(", not '{}'", how)));
    }
    addSplit(fmt::format("{}={}", name, how), layer.Mark());
  }

  void requireNew(const std::string& name, const YAML::Mark& mark) {
    const auto [first, isNew] = lines_.try_emplace(name, mark.line + 1);
    if (!isNew) {
      refuse(mark, fmt::format("{} is given a second time; the first is in line {}", name, first->second));
    }
    if (lines_.size() > kMostRules) refuse(mark, fmt::format("these are more than {} layers", kMostRules));
  }

  void addSplit(std::string split, const YAML::Mark& mark) {
    try {
      checkSetting("split", {split}, "the layer");
    } catch (const UsageError& error) {
      refuse(mark, error.what());
    }
    splits_.push_back(std::move(split));
  }

  std::string source_;
  std::map<std::string, int> lines_;  // by layer
  std::vector<std::string> splits_;
};

}  // namespace

std::vector<std::string> splitsFromYaml(std::string_view text, const std::string& source) {
  return StrategyReader(source).read(text);
}

void takeStrategyFile(GivenSettings& layer) {
  const auto node = layer.extract(std::string(kStrategyFile));
  if (node.empty()) return;
  const std::string& file = node.mapped().back();
  if (file.empty()) throw UsageError("--strategy needs a file's name");
  layer["parallel"] = {"data"};
  layer["split"] = splitsFromYaml(readYamlFile(file, "strategy"), file);
}

void requireOneDivision(const GivenSettings& layer, const std::string& place) {
  const bool hasStrategy = layer.contains(kStrategyFile);
  const bool hasMode = layer.contains("mode");
  if (static_cast<int>(layer.contains("parallel")) + static_cast<int>(hasMode) +
          static_cast<int>(hasStrategy) >
      1) {
    throw UsageError(place + "give one of --parallel, --mode and --strategy");
  }
  if (layer.contains("split") && (hasMode || hasStrategy)) {
    throw UsageError(fmt::format("{}--split refines --parallel, not --{}; give one of them", place,
                                 hasMode ? "mode" : "strategy"));
  }
}

}  // namespace cohort
