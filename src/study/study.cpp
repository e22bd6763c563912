#include "study/study.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <type_traits>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "study/study_file.h"
#include "train/config_file.h"
#include "train/yaml_text.h"

namespace cohort {
namespace {

constexpr std::size_t kMostNameBytes = 120;  // a folder's name can have 255, and files are made in it

// `upper` wins; a length in it replaces every length below, as everywhere.
void overlay(GivenSettings& lower, const GivenSettings& upper) {
  const char* lengths[] = {"train-steps", "epochs", "max-time"};
  if (std::any_of(std::begin(lengths), std::end(lengths),
                  [&](const char* name) { return upper.contains(name); })) {
    for (const char* name : lengths) lower.erase(name);
  }
  for (const auto& [name, texts] : upper) lower[name] = texts;
}

// "batch-size=64_lr=0.05". A hash tells apart what a folder's name cannot: long values, and other characters than these.
std::string pointName(const GivenSettings& varied) {
  if (varied.empty()) return "base";
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ',';
  };
  std::string name;
  std::string exact;
  bool changed = false;
  for (const auto& [setting, texts] : varied) {
    std::string value = fmt::format("{}", fmt::join(texts, "+"));
    changed |= value.empty() || !std::all_of(value.begin(), value.end(), harmless);
    std::replace_if(value.begin(), value.end(), std::not_fn(harmless), '-');
    name += fmt::format("{}{}={}", name.empty() ? "" : "_", setting, value);
    exact += fmt::format("{}\n{}\n\n", setting, fmt::join(texts, "\n"));
  }
  if (name.size() > kMostNameBytes) {
    name.resize(kMostNameBytes);
    changed = true;
  }
  return changed ? fmt::format("{}_{:012x}", name, hashName(exact) & 0xffffffffffffU) : name;
}

// How many points a product has; of more than there may be, some number above that.
std::size_t sizeOf(const Product& product) {
  std::size_t count = 1;
  for (const auto& axis : product) {
    count *= axis.size();
    if (count > kMostStudyRuns) break;  // enough to know; more could overflow
  }
  return count;
}

// The alternatives that make each point, in order.
using Points = std::vector<std::vector<const Alternative*>>;

void addPoints(const Product& product, Points& points) {
  const std::size_t count = sizeOf(product);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<const Alternative*> point;
    std::size_t rest = i;
    for (auto axis = product.rbegin(); axis != product.rend(); ++axis) {
      point.push_back(&(*axis)[rest % axis->size()]);
      rest /= axis->size();
    }
    std::reverse(point.begin(), point.end());
    points.push_back(std::move(point));
  }
}

// `runs` follow the products.
Points combinations(const StudyFile& file) {
  std::size_t count = file.runs.size();
  for (const Product& product : file.products) {
    count += sizeOf(product);
    if (count > kMostStudyRuns) break;
  }
  if (count * static_cast<std::size_t>(file.repeat) > kMostStudyRuns) {
    failAt(file.source, file.line,
           fmt::format("these are more than {} runs; shorten the lists", kMostStudyRuns));
  }
  Points points;
  for (const Product& product : file.products) addPoints(product, points);
  for (const Alternative& run : file.runs) points.push_back({&run});
  if (points.empty()) points.emplace_back();  // repetitions of what is given
  return points;
}

// Points that would be the same run, and points whose values do not go together, are mistakes.
class Expansion {
 public:
  Expansion(const StudyFile& file, const GivenSettings& base, const NetworkRegistry& networks)
      : file_(file), base_(base), networks_(networks) {}

  StudyRun run(const std::vector<const Alternative*>& point, int repetition) {
    const int line = point.empty() ? file_.line : point.back()->line;
    StudyRun run{.repetition = repetition, .given = file_.settings};
    for (const Alternative* alternative : point) {
      run.varied.insert(alternative->settings.begin(), alternative->settings.end());
    }
    overlay(run.given, run.varied);
    run.point = pointName(run.varied);
    run.name = repetition == 1 ? run.point : fmt::format("{}_repeat={}", run.point, repetition);
    run.config = resolved(run, line);
    if (file_.differentSeeds && repetition > 1) {
      run.given["seed"] = {fmt::format("{}", run.config.seed + static_cast<std::uint64_t>(repetition - 1))};
      run.config = resolved(run, line);
    }
    refuseDuplicate(run, line);
    return run;
  }

 private:
  RunConfig resolved(const StudyRun& run, int line) const {
    try {
      const GivenSettings layers[] = {base_, run.given};
      return resolveLayers(networks_, std::nullopt, layers);
    } catch (const UsageError& error) {
      failAt(file_.source, line,
             run.varied.empty() ? error.what() : fmt::format("{} ({})", error.what(), variedText(run)));
    }
  }

  void refuseDuplicate(const StudyRun& run, int line) {
    std::string key = toYaml(run.config);
    if (!file_.differentSeeds) key += fmt::format("{}", run.repetition);
    const auto [before, isNew] = seen_.emplace(std::move(key), std::pair(run.name, line));
    if (isNew) return;
    failAt(file_.source, line,
           fmt::format("{} is the same run as {} of line {}", run.name, before->second.first,
                       before->second.second));
  }

  const StudyFile& file_;
  const GivenSettings& base_;
  const NetworkRegistry& networks_;
  std::map<std::string, std::pair<std::string, int>> seen_;  // configuration -> run, line
};

}  // namespace

std::vector<StudyRun> studyRuns(const StudyFile& file, const GivenSettings& base,
                                const NetworkRegistry& networks) {
  const Points points = combinations(file);
  Expansion expansion(file, base, networks);
  std::vector<StudyRun> runs;
  // Every point once, then all again: what drifts on the machine meets all points alike.
  for (int repetition = 1; repetition <= file.repeat; ++repetition) {
    for (const auto& point : points) runs.push_back(expansion.run(point, repetition));
  }
  return runs;
}

std::vector<std::string> variedSettings(const StudyFile& file) {
  std::vector<std::string> names;
  const auto add = [&](const Alternative& alternative) {
    for (const std::string& name : alternative.order) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  };
  for (const Product& product : file.products) {
    for (const auto& axis : product) std::for_each(axis.begin(), axis.end(), add);
  }
  std::for_each(file.runs.begin(), file.runs.end(), add);
  return names;
}

Study studyFromYaml(std::string_view text, const std::filesystem::path& file,
                    const NetworkRegistry& networks) {
  StudyFile parsed = parseStudyFile(text, file.string());
  Study study{.name = parsed.name.empty() ? file.stem().string() : parsed.name,
              .file = file,
              .text = std::string(text),
              .varied = variedSettings(parsed)};
  if (!parsed.config.empty()) {
    const std::filesystem::path config = file.parent_path() / parsed.config;
    study.base = readConfigFile(config);
    study.configText = readWholeFile(config);
  }
  study.runs = studyRuns(parsed, study.base, networks);
  study.measures = std::move(parsed.measures);
  study.charts = std::move(parsed.charts);
  return study;
}

Study readStudy(const std::filesystem::path& file, const NetworkRegistry& networks) {
  return studyFromYaml(readWholeFile(file, kLargestYaml + 1), file, networks);
}

std::string variedText(const StudyRun& run) {
  if (run.varied.empty()) return "as given";
  std::string text;
  for (const auto& [name, values] : run.varied) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, fmt::join(values, " "));
  }
  return text;
}

std::vector<std::string> flagsOf(const GivenSettings& given) {
  std::vector<std::string> flags;
  RunConfig names;
  visitSettings(names, [&](const Setting& setting, auto& field) {
    const auto found = given.find(setting.name);
    if (found == given.end()) return;
    if constexpr (std::is_same_v<decltype(field), bool&>) {
      flags.push_back(fmt::format("--{}{}", found->second.back() == "true" ? "" : "no-", setting.name));
    } else {
      for (const std::string& value : found->second) {
        // Joined by '=', a value may begin with '-'; an empty one cannot be joined.
        if (value.empty()) {
          flags.push_back(fmt::format("--{}", setting.name));
          flags.push_back(value);
        } else {
          flags.push_back(fmt::format("--{}={}", setting.name, value));
        }
      }
    }
  });
  return flags;
}

}  // namespace cohort
