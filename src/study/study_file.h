// A study's file as it is written, before its lists are multiplied. Private to study.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "study/study.h"

namespace cohort {

// One value of a list, or one entry of "runs".
struct Alternative {
  GivenSettings settings = {};
  std::vector<std::string> order = {};  // the settings' names as written
  int line = 0;
};

// Each value of each list with each of the others; the last list changes fastest.
using Product = std::vector<std::vector<Alternative>>;

struct StudyFile {
  std::string name = {};
  std::string source = {};  // for messages
  std::string config = {};  // "" where there is none
  GivenSettings settings = {};
  std::vector<Product> products = {};  // "vary"
  std::vector<Alternative> runs = {};
  int repeat = 1;
  bool differentSeeds = false;
  std::vector<std::string> measures = {};
  std::vector<StudyChart> charts = {};
  std::vector<int> chartLines = {};
  int line = 1;  // where "vary" is, or "runs", or the file begins
};

// Checks each value alone; what values do together is `studyRuns`' business.
StudyFile parseStudyFile(std::string_view text, const std::string& source);

// All runs, checked; `base` is what the configuration file says, below all that the study's file says.
std::vector<StudyRun> studyRuns(const StudyFile& file, const GivenSettings& base,
                                const NetworkRegistry& networks);
// The settings that points vary, in the file's order.
std::vector<std::string> variedSettings(const StudyFile& file);

// UsageError "SOURCE:LINE: sentence".
[[noreturn]] void failAt(const std::string& source, int line, const std::string& sentence);

}  // namespace cohort
