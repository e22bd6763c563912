#include "study/study_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/nearest.h"
#include "train/config_file.h"
#include "train/summary.h"
#include "train/yaml_text.h"

namespace cohort {
namespace {

constexpr std::size_t kMostValueBytes = std::size_t{1} << 16;  // aliases can make a short text long
constexpr int kMostDepth = 8;
constexpr int kMostRepeat = 1000;

int lineOf(const YAML::Node& node) {
  return node.Mark().line + 1;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string didYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearestWord(word, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

const std::vector<std::string>& summaryKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    const auto summary = nlohmann::ordered_json::parse(toJson(RunSummary{}));
    for (const auto& item : summary.items()) {
      names.push_back(item.key());
    }
    return names;
  }();
  return keys;
}

// Walks the document; every complaint names the line.
class Reader {
 public:
  Reader(std::string_view text, StudyFile& file) : text_(text), file_(file) {}

  void read();

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& sentence) const {
    failAt(file_.source, lineOf(node), sentence);
  }
  void readKey(const std::string& key, const YAML::Node& keyNode, const YAML::Node& value);
  void readName(const YAML::Node& node);
  void readVary(const YAML::Node& node);
  Product product(const YAML::Node& node) const;
  void readRuns(const YAML::Node& node);
  void readMeasures(const YAML::Node& node);
  void readCharts(const YAML::Node& node);
  StudyChart chart(const YAML::Node& node) const;
  std::map<std::string, std::vector<std::string>> conditions(const YAML::Node& node) const;
  void checkCharts() const;
  void checkSettings(const StudyChart& chart, int line) const;

  std::string scalar(const YAML::Node& node, const std::string& what) const;
  std::vector<std::string> scalars(const YAML::Node& node, const std::string& what) const;
  std::vector<std::string> oneOrSeveral(const YAML::Node& node, const std::string& what) const;
  double number(const YAML::Node& node, const std::string& what) const;
  void oneOf(const YAML::Node& node, const std::string& what, const std::string& name,
             const std::vector<std::string>& names) const;
  bool truth(const YAML::Node& node, const std::string& what) const;
  const std::string& summaryKey(const YAML::Node& node, const std::string& key) const;

  std::string flow(const YAML::Node& node, int depth) const;
  void refuseInPlace(const std::string& name, const YAML::Mark& nameMark, const std::string& text,
                     const YAML::Mark& textMark) const;
  GivenSettings setting(const YAML::Node& key, const YAML::Node& value, const YAML::Mark& place) const;
  Alternative settings(const YAML::Node& map, const std::string& what) const;

  std::string_view text_;
  StudyFile& file_;
};

void Reader::read() {
  requireYamlDocument(text_, file_.source, "study");
  const YAML::Node root = YAML::Load(std::string(text_));
  if (!root.IsMap()) failAt(file_.source, 1, "a study is a map with vary or runs in it");
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const std::string key = scalar(entry.first, "a study's key");
    if (!seen.insert(key).second) fail(entry.first, fmt::format("{} is there twice", key));
    readKey(key, entry.first, entry.second);
  }
  if (file_.products.empty() && file_.runs.empty() && file_.repeat == 1) {
    failAt(file_.source, 1, "nothing is varied; give vary (lists of values), runs or repeat");
  }
  checkCharts();
}

void Reader::readKey(const std::string& key, const YAML::Node& keyNode, const YAML::Node& value) {
  static const std::vector<std::string> known = {"name",   "config", "settings", "vary", "runs",
                                                 "repeat", "seeds",  "measure",  "chart"};
  if (key == "name") {
    readName(value);
  } else if (key == "config") {
    file_.config = scalar(value, "config");
  } else if (key == "settings") {
    file_.settings = settings(value, "settings").settings;
  } else if (key == "vary") {
    file_.line = lineOf(keyNode);
    readVary(value);
  } else if (key == "runs") {
    if (file_.products.empty()) file_.line = lineOf(keyNode);
    readRuns(value);
  } else if (key == "repeat") {
    const std::string number = scalar(value, "repeat");
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), file_.repeat);
    if (error != std::errc() || end != number.data() + number.size() || file_.repeat < 1 ||
        file_.repeat > kMostRepeat) {
      fail(value, fmt::format("repeat is a whole number from 1 to {}, not '{}'", kMostRepeat, number));
    }
  } else if (key == "seeds") {
    const std::string seeds = scalar(value, "seeds");
    if (seeds != "same" && seeds != "different")
      fail(value, fmt::format("seeds is same or different, not '{}'", seeds));
    file_.differentSeeds = seeds == "different";
  } else if (key == "measure") {
    readMeasures(value);
  } else if (key == "chart" || key == "charts") {
    readCharts(value);
  } else {
    const std::string nearest = didYouMean(key, known);
    fail(keyNode,
         fmt::format("a study has no '{}'{}", key,
                     nearest.empty() ? fmt::format("; it has {}", fmt::join(known, ", ")) : nearest));
  }
}

void Reader::readName(const YAML::Node& node) {
  file_.name = scalar(node, "name");
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  if (file_.name.empty() || file_.name.size() > 100 || file_.name.front() == '.' ||
      file_.name.front() == '-' || !std::all_of(file_.name.begin(), file_.name.end(), plain)) {
    fail(node, "name is of up to 100 letters, digits, '-', '_' and '.': a folder is called after it");
  }
}

void Reader::readVary(const YAML::Node& node) {
  if (!node.IsSequence()) return file_.products.push_back(product(node));
  if (node.size() == 0 || node.size() > kMostStudyRuns) fail(node, "vary is one map, or a list of some");
  for (const YAML::Node& one : node) file_.products.push_back(product(one));
}

Product Reader::product(const YAML::Node& node) const {
  if (!node.IsMap() || node.size() == 0) {
    fail(node, "vary is a map of settings to lists, such as 'batch-size: [32, 64]', or a list of such maps");
  }
  Product axes;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = scalar(entry.first, "a setting's name");
    const YAML::Node& values = entry.second;
    if (!values.IsSequence())
      fail(values, fmt::format("{} is varied over a list: write [a, b], or put it into settings", key));
    if (values.size() == 0) fail(values, fmt::format("the list of {} is empty", key));
    if (values.size() > kMostStudyRuns)
      fail(values, fmt::format("the list of {} has more than {} values", key, kMostStudyRuns));
    std::vector<Alternative> axis;
    std::set<std::string> own;
    for (const YAML::Node& value : values) {
      Alternative alternative{.line = lineOf(value)};
      alternative.settings = setting(entry.first, value, value.Mark());
      for (const auto& [name, texts] : alternative.settings) {
        alternative.order.push_back(name);
        own.insert(name);
      }
      axis.push_back(std::move(alternative));
    }
    for (const std::string& name : own) {
      if (!seen.insert(name).second) fail(entry.first, fmt::format("{} is varied twice", name));
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

void Reader::readRuns(const YAML::Node& node) {
  if (!node.IsSequence() || node.size() == 0) {
    fail(node, "runs is a list of maps, such as '- {batch-size: 64, lr: 0.05}'");
  }
  for (const YAML::Node& run : node) file_.runs.push_back(settings(run, "an entry of runs"));
}

void Reader::readMeasures(const YAML::Node& node) {
  const std::vector<std::string> names = scalars(node, "measure");
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1)
      fail(node, fmt::format("measure has {} twice", name));
    summaryKey(node, name);
  }
  file_.measures = names;
}

void Reader::readCharts(const YAML::Node& node) {
  std::vector<YAML::Node> nodes;
  if (!node.IsSequence()) nodes.push_back(node);
  if (node.IsSequence()) {
    for (const YAML::Node& one : node) nodes.push_back(one);
  }
  if (nodes.empty() || nodes.size() > 100)
    fail(node, "chart is one map with x and y or curve, or a list of up to 100");
  for (const YAML::Node& one : nodes) {
    file_.charts.push_back(chart(one));
    file_.chartLines.push_back(lineOf(one));
  }
}

StudyChart Reader::chart(const YAML::Node& node) const {
  if (!node.IsMap())
    fail(node, "a chart is a map with x and y or curve, such as {x: batch-size, y: [images_per_s]}");
  StudyChart chart;
  for (const auto& entry : node) {
    const std::string key = scalar(entry.first, "a chart's key");
    if (key == "x") {
      chart.x = scalar(entry.second, "x");
    } else if (key == "y") {
      chart.y = oneOrSeveral(entry.second, key);
      for (const std::string& name : chart.y) summaryKey(entry.second, name);
    } else if (key == "curve") {
      chart.curves = oneOrSeveral(entry.second, key);
      for (const std::string& name : chart.curves) oneOf(entry.second, "a curve", name, curveNames());
    } else if (key == "where") {
      chart.where = conditions(entry.second);
    } else if (key == "lines") {
      chart.lines = oneOrSeveral(entry.second, key);
    } else if (key == "y-min" || key == "y-max") {
      (key == "y-min" ? chart.yMin : chart.yMax) = number(entry.second, key);
    } else if (key == "title") {
      chart.title = scalar(entry.second, "title");
    } else if (key == "log-x") {
      chart.logX = truth(entry.second, key);
    } else if (key == "log-y") {
      chart.logY = truth(entry.second, key);
    } else {
      fail(
          entry.first,
          fmt::format(
              "a chart has no '{}'; it has x, y or curve, where, lines, title, log-x, log-y, y-min and y-max",
              key));
    }
  }
  if (chart.x.empty() || chart.y.empty() == chart.curves.empty())
    fail(node, "a chart needs x, and y or curve");
  if (!chart.curves.empty()) oneOf(node, "x of a curve", chart.x, curveAxes());
  return chart;
}

std::map<std::string, std::vector<std::string>> Reader::conditions(const YAML::Node& node) const {
  if (!node.IsMap())
    fail(node, "where is a map of varied settings, such as {network: mnist-fc, workers: [1, 4]}");
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& entry : node) {
    const std::string name = scalar(entry.first, "a setting of where");
    result[name] = oneOrSeveral(entry.second, name);
  }
  return result;
}

// After everything else is known: "chart" may stand above "vary".
void Reader::checkCharts() const {
  std::vector<std::string> known = variedSettings(file_);
  known.insert(known.end(), summaryKeys().begin(), summaryKeys().end());
  for (std::size_t i = 0; i < file_.charts.size(); ++i) {
    const StudyChart& chart = file_.charts[i];
    checkSettings(chart, file_.chartLines[i]);
    const std::string& x = chart.x;
    if (!chart.curves.empty() || std::find(known.begin(), known.end(), x) != known.end()) continue;
    failAt(file_.source, file_.chartLines[i],
           fmt::format("x is a setting that is varied or a key of summary.json, which '{}' is not{}", x,
                       didYouMean(x, known)));
  }
}

// Those that choose runs and name lines must be varied.
void Reader::checkSettings(const StudyChart& chart, int line) const {
  const std::vector<std::string> varied = variedSettings(file_);
  std::vector<std::string> used = chart.lines;
  for (const auto& [name, values] : chart.where) used.push_back(name);
  for (const std::string& name : used) {
    if (std::find(varied.begin(), varied.end(), name) != varied.end()) continue;
    failAt(file_.source, line,
           fmt::format("where and lines name settings that are varied, which '{}' is not{}", name,
                       didYouMean(name, varied)));
  }
}

void Reader::oneOf(const YAML::Node& node, const std::string& what, const std::string& name,
                   const std::vector<std::string>& names) const {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(node, fmt::format("{} is {}, not '{}'", what, fmt::join(names, ", "), name));
}

std::vector<std::string> Reader::oneOrSeveral(const YAML::Node& node, const std::string& what) const {
  return node.IsScalar() ? std::vector{node.Scalar()} : scalars(node, what);
}

double Reader::number(const YAML::Node& node, const std::string& what) const {
  double value = 0;
  if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !std::isfinite(value))
    fail(node, fmt::format("{} is a number", what));
  return value;
}

std::string Reader::scalar(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar()) fail(node, fmt::format("{} is one text or number", what));
  return node.Scalar();
}

std::vector<std::string> Reader::scalars(const YAML::Node& node, const std::string& what) const {
  if (!node.IsSequence() || node.size() == 0 || node.size() > 1000)
    fail(node, fmt::format("{} is a list, such as [images_per_s, accuracy]", what));
  std::vector<std::string> result;
  for (const YAML::Node& item : node) result.push_back(scalar(item, fmt::format("an entry of {}", what)));
  return result;
}

bool Reader::truth(const YAML::Node& node, const std::string& what) const {
  const std::string text = scalar(node, what);
  if (text != "true" && text != "false") fail(node, fmt::format("{} is true or false, not '{}'", what, text));
  return text == "true";
}

const std::string& Reader::summaryKey(const YAML::Node& node, const std::string& key) const {
  const std::vector<std::string>& keys = summaryKeys();
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) {
    const std::string nearest = didYouMean(key, keys);
    fail(node, fmt::format("summary.json has no '{}'{}", key,
                           nearest.empty() ? fmt::format("; it has {}", fmt::join(keys, ", ")) : nearest));
  }
  return *found;
}

// A value again as YAML on one line. What is quoted stays text.
std::string Reader::flow(const YAML::Node& node, int depth) const {
  if (depth > kMostDepth) fail(node, "this is nested too deeply");
  if (node.IsNull()) return "~";
  std::string text;
  if (node.IsScalar()) {
    const std::string& value = node.Scalar();
    const auto harmless = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '+' || c == '_' || c == '/';
    };
    const bool plain = node.Tag() != "!" && !value.empty() && value.front() != '-' &&
                       std::all_of(value.begin(), value.end(), harmless);
    const bool number = node.Tag() != "!" && value.size() > 1 && value.front() == '-' &&
                        std::all_of(value.begin() + 1, value.end(), harmless) && value[1] != '-';
    text = plain || number ? value : quoted(value);
  } else {
    text = node.IsMap() ? "{" : "[";
    for (const auto& item : node) {
      if (text.size() > kMostValueBytes) break;
      if (text.size() > 1) text += ", ";
      text += node.IsMap() ? fmt::format("{}: {}", flow(item.first, depth + 1), flow(item.second, depth + 1))
                           : flow(static_cast<const YAML::Node&>(item), depth + 1);
    }
    text += node.IsMap() ? "}" : "]";
  }
  if (text.size() > kMostValueBytes) fail(node, "this value is too long");
  return text;
}

// A setting that is wrong, read once more where it stands in the file, so that the message has the right line and column.
void Reader::refuseInPlace(const std::string& name, const YAML::Mark& nameMark, const std::string& text,
                           const YAML::Mark& textMark) const {
  const auto at = [](int line, int column, const std::string& what) {
    return std::string(static_cast<std::size_t>(std::max(0, line)), '\n') +
           std::string(static_cast<std::size_t>(std::max(0, column)), ' ') + what;
  };
  try {
    settingsFromYaml(at(nameMark.line, nameMark.column, fmt::format("{}: {}", name, text)), file_.source);
  } catch (const UsageError& error) {
    const std::string ofName = fmt::format("{}:{}:{}:", file_.source, nameMark.line + 1, nameMark.column + 1);
    if (std::string_view(error.what()).starts_with(ofName)) throw;
  }
  const int before = static_cast<int>(name.size()) + 2;
  settingsFromYaml(textMark.column >= before
                       ? at(textMark.line, textMark.column - before, fmt::format("{}: {}", name, text))
                       : at(textMark.line - 1, 0, name + ":" + at(1, textMark.column, text)),
                   file_.source);
}

// One setting (or a map of some), checked; `place` is where its value is.
GivenSettings Reader::setting(const YAML::Node& key, const YAML::Node& value, const YAML::Mark& place) const {
  const std::string name = flow(key, 0);
  const std::string text = flow(value, 0);
  GivenSettings given;
  try {
    given = settingsFromYaml(fmt::format("{}: {}", name, text), file_.source);
  } catch (const UsageError&) {
    refuseInPlace(name, key.Mark(), text, place);
    throw;
  }
  for (const auto& [setting, texts] : given) {
    if (!isSetting(setting)) failAt(file_.source, place.line + 1, fmt::format("a study has no {}", setting));
  }
  return given;
}

Alternative Reader::settings(const YAML::Node& map, const std::string& what) const {
  if (!map.IsMap())
    fail(map, fmt::format("{} is a map of settings, such as {{batch-size: 64, lr: 0.05}}", what));
  Alternative result{.line = lineOf(map)};
  for (const auto& entry : map) {
    for (auto& [name, texts] : setting(entry.first, entry.second, entry.second.Mark())) {
      if (!result.settings.emplace(name, texts).second)
        fail(entry.first, fmt::format("{} is given twice", name));
      result.order.push_back(name);
    }
  }
  return result;
}

}  // namespace

void failAt(const std::string& source, int line, const std::string& sentence) {
  throw UsageError(fmt::format("{}:{}: {}", source, line, sentence));
}

StudyFile parseStudyFile(std::string_view text, const std::string& source) {
  StudyFile file;
  file.source = source;
  file.measures = {"images_per_s", "elapsed_s", "loss", "accuracy"};
  Reader(text, file).read();
  return file;
}

}  // namespace cohort
