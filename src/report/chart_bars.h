// The charts that are not lines. Private to report.
#pragma once

#include <string>

#include "report/chart.h"

namespace cohort {

std::string pieChart(const PieChart& chart, const ChartOptions& options);
std::string barChart(const BarChart& chart, const ChartOptions& options);

}  // namespace cohort
