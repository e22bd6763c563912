#include "study/results.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "study/study_directory.h"
#include "train/config_file.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

Json readJson(const fs::path& path) {
  std::error_code absent;
  if (!fs::exists(path, absent)) return nullptr;
  Json json = Json::parse(readWholeFile(path), nullptr, false);
  return json.is_object() ? json : Json(nullptr);
}

StudyRunOutcome readOutcome(const fs::path& jobDirectory) {
  StudyRunOutcome outcome;
  const Json json = readJson(jobDirectory / "outcome.json");
  if (json.is_null()) return outcome;
  try {
    json.at("command").get_to(outcome.command);
    json.at("attempts").get_to(outcome.attempts);
    if (!json.at("exit_code").is_null()) outcome.exitCode = json.at("exit_code").get<int>();
    json.at("wall_s").get_to(outcome.wallSeconds);
    json.at("last_line").get_to(outcome.lastLine);
    json.at("machine").get_to(outcome.machine);
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return outcome;
}

// What was recorded of a run that still goes on may be torn.
Metrics readCurves(const fs::path& jobDirectory) {
  try {
    return readMetrics(jobDirectory / "metrics.jsonl");
  } catch (const IoError&) {
    return {};
  }
}

std::string textOf(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A setting that this run leaves open has the value that its configuration resolved to.
std::vector<std::string> variedValues(const Study& study, const StudyRun& run) {
  std::vector<std::string> values;
  GivenSettings resolved;
  for (const std::string& name : study.varied) {
    auto given = run.given.find(name);
    if (given == run.given.end()) {
      if (resolved.empty()) resolved = settingsFromYaml(toYaml(run.config), run.name);
      given = resolved.find(name);
    }
    values.push_back(fmt::format("{}", fmt::join(given->second, " ")));
  }
  return values;
}

std::optional<double> parsed(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

void addRow(std::string& csv, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) csv += ',';
    csv += csvField(fields[i]);
  }
  csv += '\n';
}

}  // namespace

RunRecord readRecord(const Study& study, const StudyRun& run, const fs::path& jobDirectory,
                     const NetworkRegistry& networks) {
  RunRecord record{.run = &run, .varied = variedValues(study, run), .outcome = readOutcome(jobDirectory)};
  record.summary = readJson(jobDirectory / "summary.json");
  record.finished = isFinished(jobDirectory, study, run, networks);
  if (record.finished) record.outcome.exitCode = 0;
  if (std::ranges::any_of(study.charts, [](const StudyChart& chart) { return !chart.curves.empty(); }))
    record.metrics = readCurves(jobDirectory);
  return record;
}

void writeOutcome(const fs::path& jobDirectory, const StudyRunOutcome& outcome) {
  const Json json{{"command", outcome.command},
                  {"attempts", outcome.attempts},
                  {"exit_code", outcome.exitCode ? Json(*outcome.exitCode) : Json(nullptr)},
                  {"wall_s", outcome.wallSeconds},
                  {"last_line", outcome.lastLine},
                  {"machine", outcome.machine}};
  writeWholeFile(jobDirectory / "outcome.json",
                 json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string lastLineOf(const fs::path& path) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

std::optional<double> numberOf(const Study& study, const RunRecord& record, const std::string& name) {
  const auto varied = std::find(study.varied.begin(), study.varied.end(), name);
  if (varied != study.varied.end())
    return parsed(record.varied[static_cast<std::size_t>(varied - study.varied.begin())]);
  if (!record.summary.is_object() || !record.summary.contains(name)) return std::nullopt;
  const Json& value = record.summary.at(name);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string csvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

std::string resultsCsv(const Study& study, std::span<const RunRecord> records) {
  std::vector<std::string> keys;
  for (const RunRecord& record : records) {
    for (const auto& item : record.summary.items()) {
      if (!item.value().is_structured() && std::find(keys.begin(), keys.end(), item.key()) == keys.end())
        keys.push_back(item.key());
    }
  }
  std::vector<std::string> header{"run", "repetition"};
  header.insert(header.end(), study.varied.begin(), study.varied.end());
  for (const char* name : {"exit_code", "attempts", "wall_s"}) header.emplace_back(name);
  for (const std::string& key : keys) {
    const bool taken = std::find(header.begin(), header.end(), key) != header.end();
    header.push_back(taken ? "summary_" + key : key);
  }
  std::string csv;
  addRow(csv, header);
  for (const RunRecord& record : records) {
    if (!record.ended()) continue;
    std::vector<std::string> row{record.run->name, fmt::format("{}", record.run->repetition)};
    row.insert(row.end(), record.varied.begin(), record.varied.end());
    row.push_back(record.outcome.exitCode ? fmt::format("{}", *record.outcome.exitCode) : "");
    row.push_back(fmt::format("{}", record.outcome.attempts));
    row.push_back(fmt::format("{:.3f}", record.outcome.wallSeconds));
    for (const std::string& key : keys) {
      const bool known = record.summary.is_object() && record.summary.contains(key) &&
                         !record.summary.at(key).is_structured();
      row.push_back(known ? textOf(record.summary.at(key)) : "");
    }
    addRow(csv, row);
  }
  return csv;
}

}  // namespace cohort
