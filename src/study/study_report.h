// A study's results for people: report.html with a table and charts, the charts as files too, and results.csv. Private to
// study.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "report/chart.h"
#include "study/results.h"

namespace cohort {

struct NamedChart {
  std::string file = {};  // "chart-1-elapsed_s.svg"
  Chart chart = {};
};

// The charts that the file asks for, from the runs that are finished. Over numbers a chart has lines, through the means of
// repetitions; over other values bars. One line, or colour, for each combination of the other varied settings.
std::vector<NamedChart> studyCharts(const Study& study, std::span<const RunRecord> records);

// "images_per_s 1,234, accuracy 0.92": a run's measures in one line.
std::string measuredText(const Study& study, const RunRecord& record);

std::string studyPage(const Study& study, std::span<const RunRecord> records,
                      std::span<const NamedChart> charts);

// Writes results.csv, the charts and report.html, each whole or not at all.
void writeStudyReport(const Study& study, std::span<const RunRecord> records,
                      const std::filesystem::path& directory);

}  // namespace cohort
