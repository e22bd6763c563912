#include "train/config_file.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/nearest.h"
#include "train/older_names.h"
#include "train/strategy_file.h"
#include "train/yaml_text.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using Path = std::vector<std::string>;

// Words over several settings, besides the first words of their names.
constexpr std::string_view kGroups[] = {"model",    "network",    "data",   "dataset", "optimizer",
                                        "training", "evaluation", "length", "records", "process"};

std::string withDashes(std::string text) {
  std::ranges::replace(text, '_', '-');
  return text;
}

// Besides settings and older names.
bool isFileKey(std::string_view name) {
  return name == kJobDirectory || name == kStrategyFile;
}

bool isKey(std::string_view name) {
  return isFileKey(name) || isSetting(name);
}

bool isGroup(const std::string& name) {
  if (std::ranges::count(kGroups, name) > 0) return true;
  const std::vector<std::string> names = settingNames();
  return std::ranges::any_of(names, [&](const std::string& n) { return n.starts_with(name + "-"); });
}

// What a path of keys names; nothing where it names nothing. Words have dashes already.
std::optional<std::string> keyOf(const Path& path) {
  const std::string& last = path.back();
  if (path.size() == 1 && findOlderName(last) != nullptr) return last;
  for (std::size_t begin = 0; begin < path.size(); ++begin) {
    const std::string name =
        fmt::format("{}", fmt::join(path.begin() + static_cast<std::ptrdiff_t>(begin), path.end(), "-"));
    if (begin + 1 == path.size() && begin > 0 && last == "name" && isSetting(path[begin - 1]))
      return path[begin - 1];
    if (isKey(name)) return name;
    if (!isGroup(path[begin])) return std::nullopt;
  }
  return std::nullopt;
}

std::string unknownKey(const std::string& key) {
  std::vector<std::string> known = settingNames();
  known.emplace_back(kJobDirectory);
  std::string nearest = nearestWord(withDashes(key), known);
  return fmt::format(
      "there is no setting '{}'; {}", key,
      nearest.empty() ? "cohort train --help names them all" : fmt::format("did you mean '{}'?", nearest));
}

// What a layer is made of, whatever it is written in.
struct Layer {
  GivenSettings given;
  std::vector<OlderSetting> older;

  // `place` is before what is said of the whole.
  GivenSettings finish(std::vector<std::string>* notes, const std::string& place) {
    std::vector<std::string> ignored;
    translateOlderNames(older, given, notes == nullptr ? ignored : *notes);
    requireOneDivision(given, place);
    return std::move(given);
  }
};

class YamlReader {
 public:
  explicit YamlReader(const std::string& source) : source_(source) {}

  GivenSettings read(std::string_view text, std::vector<std::string>* notes);

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& sentence) const {
    throw UsageError(place(mark) + sentence);
  }
  std::string place(const YAML::Mark& mark) const { return yamlPlace(source_, mark.line, mark.column); }

  void readMap(const YAML::Node& map, const Path& outer);
  void readEntry(const YAML::Node& key, const YAML::Node& value, const Path& outer);
  void add(const std::string& name, const std::string& shown, const YAML::Node& key, const YAML::Node& value);
  std::vector<std::string> valuesOf(const std::string& name, const std::string& shown,
                                    const YAML::Node& value) const;
  std::string scalar(const std::string& shown, const YAML::Node& value) const;
  std::string itemOf(const std::string& name, const std::string& shown, const YAML::Node& item) const;

  std::string source_;
  Layer layer_;
  int entries_ = 0;
  std::map<std::string, YAML::Mark, std::less<>> seen_;
};

GivenSettings YamlReader::read(std::string_view text, std::vector<std::string>* notes) {
  requireYamlDocument(text, source_, "configuration");
  const YAML::Node root = YAML::Load(std::string(text));
  if (root.IsNull()) {
    throw UsageError(fmt::format("{} has no settings; write one a line, as in 'batch-size: 128'", source_));
  }
  if (!root.IsMap()) refuse(root.Mark(), "a configuration has lines such as 'batch-size: 128'");
  try {
    readMap(root, {});
  } catch (const YAML::Exception& error) {
    refuse(error.mark, fmt::format("this is not YAML: {}", error.msg));
  }
  return layer_.finish(notes, source_ + ": ");
}

void YamlReader::readMap(const YAML::Node& map, const Path& outer) {
  for (const auto& entry : map) readEntry(entry.first, entry.second, outer);
}

void YamlReader::readEntry(const YAML::Node& key, const YAML::Node& value, const Path& outer) {
  // By aliases, a map may hold itself, or twice what the one before holds.
  constexpr std::size_t kDeepest = 8;
  constexpr int kMostEntries = 10'000;
  if (outer.size() > kDeepest || ++entries_ > kMostEntries) {
    refuse(key.Mark(), "maps in maps go on for ever here; a setting needs two or three");
  }
  if (!key.IsScalar()) refuse(key.Mark(), "the name of a setting is one word");
  const std::string& shown = key.Scalar();
  Path path = outer;
  path.push_back(withDashes(shown));
  if (value.IsMap() && isGroup(path.back())) return readMap(value, path);
  const std::optional<std::string> name = keyOf(path);
  if (!name) refuse(key.Mark(), unknownKey(shown));
  add(*name, shown, key, value);
}

void YamlReader::add(const std::string& name, const std::string& shown, const YAML::Node& key,
                     const YAML::Node& value) {
  const auto [first, isNew] = seen_.try_emplace(name, key.Mark());
  if (!isNew) {
    refuse(key.Mark(),
           fmt::format("{} is given a second time; the first is in line {}", shown, first->second.line + 1));
  }
  if (value.IsNull()) {
    refuse(key.Mark(),
           fmt::format("{} has no value; leave the line out, or write \"\" for an empty text", shown));
  }
  std::vector<std::string> values = valuesOf(name, shown, value);
  if (!isSetting(name) && !isFileKey(name)) {
    layer_.older.push_back({name, std::move(values), shown, place(key.Mark())});
    return;
  }
  try {
    checkSetting(name, values, shown);
  } catch (const UsageError& error) {
    refuse(value.Mark(), error.what());
  }
  layer_.given[name] = std::move(values);
}

std::vector<std::string> YamlReader::valuesOf(const std::string& name, const std::string& shown,
                                              const YAML::Node& value) const {
  if (!value.IsSequence()) return {scalar(shown, value)};
  std::vector<std::string> items;
  for (const YAML::Node& item : value) items.push_back(itemOf(name, shown, item));
  if (isList(name)) return items;
  if (name == "transforms") {
    return {items.empty() ? "none" : fmt::format("{}", fmt::join(items, ","))};
  }
  const OlderName* older = findOlderName(name);
  if (!isSetting(name) && older != nullptr && !items.empty() && !older->isSwitch) return items;
  refuse(value.Mark(), fmt::format("{} takes one value, not a list", shown));
}

std::string YamlReader::scalar(const std::string& shown, const YAML::Node& value) const {
  if (value.IsMap()) refuse(value.Mark(), fmt::format("{} takes one value, not a map", shown));
  if (value.IsSequence()) refuse(value.Mark(), fmt::format("{} takes one value, not a list", shown));
  if (!value.IsScalar()) refuse(value.Mark(), fmt::format("{} has an empty item", shown));
  try {
    refuseRemotePath(value.Scalar());
  } catch (const UsageError& error) {
    refuse(value.Mark(), error.what());
  }
  return value.Scalar();
}

// '- resize: 256', with a space, is a map of one entry in YAML; in a list of transforms it means resize:256.
std::string YamlReader::itemOf(const std::string& name, const std::string& shown,
                               const YAML::Node& item) const {
  if (name != "transforms" || !item.IsMap() || item.size() != 1) return scalar(shown, item);
  const auto entry = item.begin();
  return fmt::format("{}:{}", scalar(shown, entry->first), scalar(shown, entry->second));
}

// A text as YAML: plain where nobody could take it for something else.
std::string quoted(const std::string& text) {
  const auto isPlain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=%+").find(c) != std::string_view::npos;
  };
  const bool isCount = !text.empty() && text.size() < 16 && text[0] != '0' &&
                       std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const bool isWord =
      !text.empty() && std::ranges::all_of(text, isPlain) && text.back() != ':' &&
      ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') || text[0] == '/');
  if (isCount || text == "0" ||
      (isWord && !parseSwitch(text) && text != "null" && text != "y" && text != "n")) {
    return text;
  }
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << text;
  return emitter.c_str();
}

struct ToYaml {
  std::string operator()(const std::string& value) const { return " " + quoted(value); }
  std::string operator()(const std::vector<std::string>& values) const {
    if (values.empty()) return " []";
    std::string text;
    for (const std::string& value : values) text += "\n  - " + quoted(value);
    return text;
  }
  std::string operator()(const std::optional<double>& value) const {
    return value ? (*this)(*value) : fmt::format(" {}", kDefaultValue);
  }
  template <class Number>
  std::string operator()(const Number& value) const {
    return fmt::format(" {}", value);
  }
};

}  // namespace

GivenSettings settingsFromYaml(std::string_view text, const std::string& source,
                               std::vector<std::string>* notes) {
  return YamlReader(source).read(text, notes);
}

GivenSettings readConfigFile(const fs::path& path, std::vector<std::string>* notes) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && fs::exists(path / "config.yaml", ignored)) {
    throw UsageError(fmt::format("{} is a folder, not a configuration file; give {}", path.string(),
                                 (path / "config.yaml").string()));
  }
  GivenSettings given = settingsFromYaml(readYamlFile(path, "configuration"), path.string(), notes);
  takeStrategyFile(given);
  return given;
}

GivenSettings settingsFromOverrides(const std::vector<std::string>& texts, std::vector<std::string>* notes) {
  Layer layer;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("-o takes KEY=VALUE, as in -o lr=0.1, not '{}'", text));
    }
    const std::string shown = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    Path path{""};
    for (const char c : shown) {
      if (c == '.')
        path.emplace_back();
      else
        path.back() += c == '_' ? '-' : c;
    }
    const std::optional<std::string> name = keyOf(path);
    if (!name) throw UsageError("-o: " + unknownKey(shown));
    if (name == kStrategyFile) {
      throw UsageError(
          fmt::format("-o takes no {}; give --strategy {}", shown, value.empty() ? "FILE" : value));
    }
    if (!isSetting(*name) && name != kJobDirectory) {
      layer.older.push_back({*name, {value}, "-o " + shown});
      continue;
    }
    std::vector<std::string>& values = layer.given[*name];
    if (!isList(*name)) values.clear();
    if (!isList(*name) || !value.empty()) values.push_back(value);
    checkSetting(*name, values, "-o " + shown);
  }
  return layer.finish(notes, "-o: ");
}

std::string toYaml(const RunConfig& config) {
  std::string text =
      "# Every setting of a run; cohort train --config with this file repeats it in a new job directory.\n";
  std::string_view group;
  visitSettings(config, [&](const Setting& setting, const auto& field) {
    if (group != setting.group) text += fmt::format("\n# {}\n", setting.group);
    group = setting.group;
    text += fmt::format("{}:{}\n", setting.name, ToYaml{}(field));
  });
  return text;
}

}  // namespace cohort
