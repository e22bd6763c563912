// From points to paths. Private to report.
#pragma once

#include <string>
#include <vector>

#include "report/chart.h"

namespace cohort {

// At most four points in every `column` pixels: the first, lowest, highest and last, so that the picture stays the same
// however long a run was. Points that are not finite stay, one of several in a row.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& pixels, double column);

// "M1 2 3 4M…": a new part after each gap; a point alone becomes a dot.
std::string pathData(const std::vector<ChartPoint>& pixels, int decimals);

// The value below which `part` (0 … 1) of the finite values lie; NaN where there is none.
double quantile(std::vector<double> values, double part);

}  // namespace cohort
