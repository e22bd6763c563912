// The charts of a report: which there are, and what they show. Pure functions of the runs' records.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/chart.h"
#include "report/run_records.h"

namespace cohort {

struct ReportChart {
  std::string file;  // "loss.svg": a name of its own among the report's charts
  Chart chart;
};

// Curves and time shares of all runs together; a chart that would be empty is left out. Run i has colour i everywhere.
std::vector<ReportChart> runCharts(std::span<const RunRecords> runs);
// Shares of weights and of time by kind of layer: none, one or two charts for each run.
std::vector<ReportChart> layerCharts(std::span<const RunRecords> runs);

// What a run's steps took, from its metrics or else its summary; all 0 where neither tells.
TimeShares totalSeconds(const RunRecords& run);
// Wall time of all of a run's processes up to each training point.
std::vector<double> elapsedTimes(const std::vector<TrainPoint>& points);

}  // namespace cohort
