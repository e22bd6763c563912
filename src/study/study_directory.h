// A study's folder, locked against a second study:
//
//   study.yaml       the file's text; config.yaml the configuration file's, which the runs are given
//   points.json      every run's settings: what a changed file is compared with
//   runs/NAME/       the run's job directory, with output.txt (what it printed) and outcome.json (how it ended)
//   results.csv, report.html, chart-*.svg      made anew from those after every run
//
// Used by one thread.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"
#include "study/study.h"

namespace cohort {

class StudyDirectory {
 public:
  // Makes the folder where it is missing and locks it. UsageError where another study has it, or where it was begun with
  // runs that `study` does not have or has with other settings; IoError where it cannot be made.
  StudyDirectory(std::filesystem::path path, const Study& study);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path run(const StudyRun& run) const { return path_ / "runs" / run.name; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

// Whether `run` has been done to its end in this job directory, with these settings.
bool isFinished(const std::filesystem::path& jobDirectory, const Study& study, const StudyRun& run,
                const NetworkRegistry& networks);

}  // namespace cohort
