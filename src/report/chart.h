// Charts from plain values, as SVG: lines, pies and bars.
//
// An SVG is complete in itself: no script, no font, no link. Its colours are CSS variables with a light and a dark set
// (prefers-color-scheme), and the light ones are attributes too, for programs that know no CSS variables. The palette
// stays apart for the common kinds of colour blindness. The same values always give the same bytes.
//
// Values that are not finite are gaps; texts may be anything, they are escaped. Free functions, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cohort {

// Colours are 0 … kChartColours - 1; where there are more, lines are dashed from the second round on.
inline constexpr int kChartColours = 8;

struct ChartPoint {
  double x = 0;
  double y = 0;
};

// Series of one name have one colour and one entry in the legend; `kind` ("training", "test") tells them apart.
struct Series {
  enum class Style {
    Line,         // with small points where there are few
    Points,       // points alone
    DottedPoints  // points on a dotted line
  };
  std::string name = {};
  std::string kind = {};
  std::vector<ChartPoint> points = {};  // x ascending
  Style style = Style::Line;
  bool smoothed = false;  // the values faint, and a smooth line through them
  int colour = -1;        // -1: the next one
};

struct Axis {
  std::string label = {};  // with its unit: "time, s"
  bool log = false;        // values that are not positive are gaps
  bool percent = false;    // 0.5 is shown as 50%
  std::optional<double> min = {};
  std::optional<double> max = {};
  std::vector<double> ticks = {};  // empty: chosen
};

struct LineChart {
  std::string title = {};
  Axis x = {};
  Axis y = {};
  std::vector<Series> series = {};
};

// Shares of a whole. Values that are not positive are left out.
struct PieSlice {
  std::string name = {};
  double value = 0;
  int colour = -1;  // -1: the next one
};

struct PieChart {
  std::string title = {};
  std::string subtitle = {};
  std::string unit = {};  // of the values ("parameters"): shows them and their sum
  std::vector<PieSlice> slices = {};
};

// Horizontal bars: each group has its name and, below it, a bar of every series (or all of them in one, stacked).
struct BarSeries {
  std::string name = {};
  std::vector<double> values = {};  // one per group; negative ones are drawn as 0
  int colour = -1;                  // -1: the next one
};

struct BarChart {
  std::string title = {};
  Axis axis = {};
  std::vector<std::string> groups = {};
  std::vector<BarSeries> series = {};
  bool stacked = false;
};

using Chart = std::variant<LineChart, PieChart, BarChart>;

struct ChartOptions {
  int width = 640;  // CSS pixels; the text has the same size at every width
  int height = 0;   // of lines' whole picture; 0: from the width. Others are as high as they need
  // A file of its own. Otherwise a part of an HTML page that has chartStyle() in a <style> element.
  bool standalone = true;
};

std::string toSvg(const Chart& chart, const ChartOptions& options = {});

// The CSS of all charts: for a page once, however many charts it has.
std::string chartStyle();

// A smooth curve through noisy values, at the same x: around each a straight line is fitted to the nearest values, so that
// the ends are not bent towards the middle. Values that are not finite stay what they are.
std::vector<ChartPoint> smoothCurve(const std::vector<ChartPoint>& points);

}  // namespace cohort
