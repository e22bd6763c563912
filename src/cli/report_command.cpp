#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "report/chart.h"
#include "report/report_charts.h"
#include "report/report_page.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

void makeDirectory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw IoError(fmt::format("Cannot make the folder {}: {}.", path.string(), systemMessage(error.value())));
  }
}

std::size_t writeCharts(const fs::path& folder, const std::vector<RunRecords>& runs) {
  makeDirectory(folder);
  std::vector<ReportChart> charts = runCharts(runs);
  for (ReportChart& chart : layerCharts(runs)) charts.push_back(std::move(chart));
  for (const ReportChart& chart : charts) {
    const int width = std::holds_alternative<PieChart>(chart.chart) ? 420 : 720;
    writeWholeFile(folder / chart.file, toSvg(chart.chart, {.width = width}));
  }
  return charts.size();
}

}  // namespace

int reportCommand(const ReportArguments& arguments) {
  const std::vector<fs::path> paths(arguments.runs.begin(), arguments.runs.end());
  const std::vector<RunRecords> runs = readRunRecords(paths);
  const fs::path output = arguments.output;
  if (fs::is_directory(output)) {
    throw UsageError(fmt::format("-o takes the name of a file, and {} is a folder", arguments.output));
  }
  if (output.has_parent_path()) makeDirectory(output.parent_path());
  writeWholeFile(output, reportPage(runs));
  fmt::print("{}: {} {}\n", arguments.output, runs.size(), runs.size() == 1 ? "run" : "runs");
  if (!arguments.svgDirectory.empty()) {
    const std::size_t count = writeCharts(arguments.svgDirectory, runs);
    fmt::print("{}: {} charts\n", arguments.svgDirectory, count);
  }
  return kSuccess;
}

}  // namespace cohort
