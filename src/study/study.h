// A study: one base configuration over lists of values, each combination a run of its own.
//
// The words: a *point* is one combination of values, a *repetition* of it is one run. A study's runs are decided before
// the first one starts; `readStudy` has checked every value by then. Plain values, safe to read from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/network.h"
#include "train/run_config.h"

namespace cohort {

// More would be a mistake in the file.
inline constexpr std::size_t kMostStudyRuns = 10000;

struct StudyRun {
  // Its folder under runs/, made of the values alone: the same whatever other points the file has. Repetitions of a
  // point have `point` in common.
  std::string name = {};
  std::string point = {};
  int repetition = 1;         // from 1
  GivenSettings varied = {};  // what this point says
  GivenSettings given = {};   // its flags: the settings of all, the point's values, the repetition's seed
  RunConfig config = {};      // as resolved
};

// Of runs as they ended (y), or while they went (curves); one picture for each of these.
struct StudyChart {
  std::string x = {};  // a varied setting, or a key of summary.json; of curves one of curveAxes()
  std::vector<std::string> y = {};                             // keys of summary.json
  std::vector<std::string> curves = {};                        // some of curveNames()
  std::map<std::string, std::vector<std::string>> where = {};  // only runs with one of these values
  std::vector<std::string> lines = {};  // the settings that name a line; none: all that differ
  std::string title = {};
  bool logX = false;
  bool logY = false;
  std::optional<double> yMin = {};
  std::optional<double> yMax = {};
};
// What runs record while they go, and over what it can be drawn.
const std::vector<std::string>& curveNames();
const std::vector<std::string>& curveAxes();

struct Study {
  std::string name = {};
  std::filesystem::path file = {};
  std::string text = {};                 // the file's
  std::string configText = {};           // of the configuration file; "" where there is none
  GivenSettings base = {};               // what that says, below the flags
  std::vector<std::string> varied = {};  // settings in which points differ, in the file's order
  std::vector<StudyRun> runs = {};       // in the order in which they are done: every point once, then again
  std::vector<std::string> measures = {};  // keys of summary.json
  std::vector<StudyChart> charts = {};
};

// UsageError with "FILE:LINE" where something in the file is wrong, IoError where it cannot be read.
Study readStudy(const std::filesystem::path& file, const NetworkRegistry& networks);
// The same for a text; `file` names it and is where "config" is looked for.
Study studyFromYaml(std::string_view text, const std::filesystem::path& file,
                    const NetworkRegistry& networks);

// "batch-size=64, lr=0.05"; "as given" where a point varies nothing.
std::string variedText(const StudyRun& run);

// The flags that give a run these settings.
std::vector<std::string> flagsOf(const GivenSettings& given);

}  // namespace cohort
