// What is known of a study's runs, and the table that programs read. Private to study.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/metrics_file.h"
#include "study/study.h"

namespace cohort {

// How the processes of one run ended: runs/NAME/outcome.json.
struct StudyRunOutcome {
  std::vector<std::string> command = {};
  int attempts = 0;                  // processes that were started for it
  std::optional<int> exitCode = {};  // of the last one; nothing where none has ended, or its end was not seen
  double wallSeconds = 0;            // of all whose end was seen
  std::string lastLine = {};         // that the last one printed
  std::string machine = {};
};

struct RunRecord {
  const StudyRun* run = nullptr;
  std::vector<std::string> varied = {};  // this run's values of Study::varied
  StudyRunOutcome outcome = {};
  bool finished = false;
  nlohmann::ordered_json summary = {};  // null where there is none
  Metrics metrics = {};                 // where the study draws curves

  // Whether it has something to show: it ended, well or badly.
  bool ended() const { return finished || outcome.exitCode.has_value(); }
  bool resumed() const { return summary.is_object() && summary.value("start_step", 0) > 0; }
};

// The record of a run from its job directory's files; absent or damaged ones count as not there.
RunRecord readRecord(const Study& study, const StudyRun& run, const std::filesystem::path& jobDirectory,
                     const NetworkRegistry& networks);
void writeOutcome(const std::filesystem::path& jobDirectory, const StudyRunOutcome& outcome);

// The last line of a text file that has more than blanks; "" without one.
std::string lastLineOf(const std::filesystem::path& path);

// A number by the name of a varied setting or of a key of summary.json.
std::optional<double> numberOf(const Study& study, const RunRecord& record, const std::string& name);

// RFC 4180's quoting.
std::string csvField(std::string_view text);
// A header and a row for every run that has ended: what it is, how it ended, every single value of its summary.json.
std::string resultsCsv(const Study& study, std::span<const RunRecord> records);

}  // namespace cohort
