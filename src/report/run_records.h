// What a job directory tells of its run, for reports: config.yaml, metrics.jsonl, summary.json and layers.json. Only the
// first or the second must exist: a run that still goes on has no summary, and not every run measures its layers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics_file.h"

namespace cohort {

// summary.json, as far as a report shows it; what is null or missing there is NaN or empty here.
struct RunOutcome {
  std::string network;
  std::string dataset;
  Step step = 0;
  double loss = 0;
  double accuracy = 0;  // of the test split at the end
  double top5 = 0;
  double testLoss = 0;
  double elapsedSeconds = 0;
  double imagesPerSecond = 0;
  double peakMemoryBytes = 0;
  std::int64_t threads = 0;
  TimeShares seconds;
  std::string weightsHash;
  bool interrupted = false;
};

// A row of layers.json. The seconds are of the whole process, lanes' time divided by the lanes; NaN where they were not measured.
struct LayerRecord {
  std::string name;
  std::string operation;  // "conv 3x3/2 64"
  std::string kind;       // "conv", "dense", "pool", or something else
  std::string output;     // "64x12x12"
  double parameters = 0;
  double multiplyAdds = 0;
  double forwardSeconds = 0;
  double backwardSeconds = 0;
};

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

struct RunRecords {
  std::string name;       // the folder's; unlike the other runs'
  SettingTexts settings;  // in the file's order; a map inside a map gives "outer.inner"
  Metrics metrics;
  std::optional<RunOutcome> outcome;
  std::vector<LayerRecord> layers;

  // The value of a setting; empty where there is none.
  std::string setting(const std::string& key) const;
};

// UsageError where the folder is no job directory, IoError naming the file where one cannot be read as what it is.
RunRecords readRunRecords(const std::filesystem::path& jobDirectory);
// Several; runs whose folders have the same name get more of their paths. A folder given twice counts once.
std::vector<RunRecords> readRunRecords(std::span<const std::filesystem::path> jobDirectories);

}  // namespace cohort
