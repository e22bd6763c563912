#include "study/study_directory.h"

#include <cerrno>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "train/job_directory.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
using SettingsByRun = std::map<std::string, GivenSettings, std::less<>>;

// With what the configuration file says, as far as it is not overridden.
GivenSettings allSettings(const Study& study, const StudyRun& run) {
  GivenSettings settings = run.given;
  settings.insert(study.base.begin(), study.base.end());
  return settings;
}

std::string pointsJson(const Study& study) {
  Json json{{"name", study.name}, {"runs", Json::object()}};
  for (const StudyRun& run : study.runs) {
    json["runs"][run.name] = allSettings(study, run);
  }
  return json.dump(1) + "\n";
}

SettingsByRun storedRuns(const fs::path& path) {
  const Json json = Json::parse(readWholeFile(path), nullptr, false);
  try {
    return json.at("runs").get<SettingsByRun>();
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("{} is not what a study wrote; give another --study-dir", path.string()));
  }
}

std::string textOf(const GivenSettings& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? "unset" : fmt::format("{}", fmt::join(found->second, " "));
}

// "seed was 1 and is 2" for the first setting that differs; "" where none does.
std::string difference(const GivenSettings& before, const GivenSettings& now) {
  GivenSettings names = before;
  names.insert(now.begin(), now.end());
  for (const auto& [name, unused] : names) {
    const std::string was = textOf(before, name);
    const std::string is = textOf(now, name);
    if (was != is) return fmt::format("{} was {} and is {}", name, was, is);
  }
  return "";
}

// Only added runs leave what is there valid.
void refuseChanges(const SettingsByRun& before, const Study& study, const fs::path& directory) {
  SettingsByRun now;
  for (const StudyRun& run : study.runs) now.emplace(run.name, allSettings(study, run));
  std::vector<std::string> changes;
  for (const auto& [name, settings] : before) {
    const auto found = now.find(name);
    const std::string change = found == now.end() ? "is gone" : difference(settings, found->second);
    if (!change.empty()) changes.push_back(fmt::format("{} ({})", name, change));
  }
  if (changes.empty()) return;
  const std::size_t count = changes.size();
  if (count > 3) changes.resize(3);
  throw UsageError(
      fmt::format("{} was begun with another {}: {}{}; only points may be added, so undo that or give "
                  "another --study-dir",
                  directory.string(), study.file.filename().string(), fmt::join(changes, ", "),
                  count > changes.size() ? fmt::format(" and {} more", count - changes.size()) : ""));
}

}  // namespace

StudyDirectory::StudyDirectory(fs::path path, const Study& study) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_ / "runs", error);
  if (error)
    throw IoError(fmt::format("cannot make the study's folder {}: {}", path_.string(), error.message()));
  lock_ = tryLock(path_ / "lock");
  if (!lock_ && errno == EWOULDBLOCK) {
    throw UsageError(
        fmt::format("another study is using {}; wait for it, or give another --study-dir", path_.string()));
  }
  if (!lock_) {
    throw IoError(
        fmt::format("cannot write in the study's folder {}: {}", path_.string(), systemMessage(errno)));
  }
  const fs::path points = path_ / "points.json";
  if (fs::exists(points)) refuseChanges(storedRuns(points), study, path_);
  writeWholeFile(path_ / "study.yaml", study.text);
  if (!study.configText.empty()) writeWholeFile(config(), study.configText);
  writeWholeFile(points, pointsJson(study));
}

bool isFinished(const fs::path& jobDirectory, const Study& study, const StudyRun& run,
                const NetworkRegistry& networks) {
  std::error_code absent;
  if (!fs::exists(jobDirectory / "summary.json", absent)) return false;
  const Json summary = Json::parse(readWholeFile(jobDirectory / "summary.json"), nullptr, false);
  if (!summary.is_object() || summary.value("interrupted", Json(true)) != Json(false)) return false;
  try {
    const auto stored = storedConfig(jobDirectory);
    if (!stored) return false;
    // The stored configuration has been completed by the run; what is given must not change it.
    const GivenSettings layers[] = {study.base, run.given};
    return resolveLayers(networks, stored, layers) == resolveLayers(networks, stored, {});
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace cohort
