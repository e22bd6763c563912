#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "report/chart_bars.h"
#include "report/chart_curve.h"
#include "report/chart_scale.h"
#include "report/svg.h"

namespace cohort {
namespace {

constexpr std::size_t kFewPoints = 24;  // a line with as many shows them
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A series as it is drawn.
struct Drawn {
  const Series* series = nullptr;
  std::vector<ChartPoint> curve;  // the smooth one where that is wanted
  int colour = 0;
};

// Series of one name share the colour of the first.
std::vector<Drawn> drawnSeries(const std::vector<Series>& all) {
  std::vector<Drawn> drawn;
  int next = 0;
  for (const Series& series : all) {
    const auto same = std::find_if(drawn.begin(), drawn.end(),
                                   [&](const Drawn& other) { return other.series->name == series.name; });
    const int colour = series.colour >= 0 ? series.colour : same != drawn.end() ? same->colour : next;
    next = std::max(next, colour + 1);
    drawn.push_back({&series, series.smoothed ? smoothCurve(series.points) : series.points, colour});
  }
  return drawn;
}

// Names where there are several, kinds where there are any.
std::vector<LegendEntry> legendOf(const std::vector<Drawn>& drawn) {
  using Mark = LegendEntry::Mark;
  std::vector<LegendEntry> names;
  std::vector<LegendEntry> kinds;
  std::set<std::string> seen;
  std::set<std::string> seenKinds;
  for (const auto& [series, curve, colour] : drawn) {
    if (seen.insert(series->name).second) {
      names.push_back({series->name, colour,
                       series->style == Series::Style::Points ? Mark::Point
                       : colour >= kChartColours              ? Mark::DashedLine
                                                              : Mark::Line,
                       series->name});
    }
    if (!series->kind.empty() && seenKinds.insert(series->kind).second) {
      const Mark mark = series->style == Series::Style::Line     ? Mark::Line
                        : series->style == Series::Style::Points ? Mark::Point
                                                                 : Mark::DottedPoint;
      kinds.push_back({series->kind, -1, mark});
    }
  }
  if (names.size() == 1) {
    for (LegendEntry& kind : kinds) kind.colour = names[0].colour;
    names.clear();
  }
  names.insert(names.end(), kinds.begin(), kinds.end());
  return names;
}

struct Ranges {
  ValueRange x;
  ValueRange y;
};

// All values, but of noisy series only what a smooth line cannot tell: a few outliers must not flatten the rest.
Ranges rangesOf(const LineChart& chart, const std::vector<Drawn>& drawn) {
  Ranges ranges;
  for (const auto& [series, curve, colour] : drawn) {
    std::vector<double> values;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const bool shown = std::isfinite(curve[i].x) && std::isfinite(curve[i].y) &&
                         (!chart.x.log || curve[i].x > 0) && (!chart.y.log || curve[i].y > 0);
      if (!shown) continue;
      ranges.x.add(curve[i].x);
      ranges.y.add(curve[i].y);
      if (series->smoothed && (!chart.y.log || series->points[i].y > 0))
        values.push_back(series->points[i].y);
    }
    ranges.y.add(quantile(values, 0.01));
    ranges.y.add(quantile(values, 0.99));
  }
  return ranges;
}

// Where the plot is, and what its axes say.
class Plot {
 public:
  Plot(const LineChart& chart, const std::vector<Drawn>& drawn, const ChartOptions& options, double top)
      : ranges_(rangesOf(chart, drawn)),
        top_(top),
        height_(std::max(60.0, totalHeight(options, top) - top - (chart.x.label.empty() ? 26 : 42))),
        y_(chart.y, ranges_.y, height_, static_cast<int>(height_ / 36), true),
        left_(std::ceil(labelWidth()) + 12),
        width_(std::max(60.0, options.width - left_ - 18)),
        x_(chart.x, ranges_.x, width_, static_cast<int>(width_ / 52), false) {}

  static double totalHeight(const ChartOptions& options, double top) {
    if (options.height > 0) return options.height;
    return std::clamp(options.width * 0.5, 230.0, 420.0) + top;
  }

  bool empty() const { return ranges_.x.empty; }
  double left() const { return left_; }
  double top() const { return top_; }
  double width() const { return width_; }
  double height() const { return height_; }

  std::vector<ChartPoint> pixels(const std::vector<ChartPoint>& points) const {
    std::vector<ChartPoint> result;
    result.reserve(points.size());
    for (const auto& [x, y] : points) {
      const bool shown = x_.shows(x) && y_.shows(y);
      result.push_back(shown ? ChartPoint{x_.place(x), height_ - y_.place(y)} : ChartPoint{kNaN, kNaN});
    }
    return result;
  }

  bool inside(const ChartPoint& pixel) const {
    return pixel.x >= -0.5 && pixel.x <= width_ + 0.5 && pixel.y >= -0.5 && pixel.y <= height_ + 0.5;
  }

  // For the page's read-out: the plot's place, and the values at its ends.
  std::string attributes(const LineChart& chart) const {
    return fmt::format(
        R"( data-plot="{} {} {} {}" data-x="{:.9g} {:.9g}" data-y="{:.9g} {:.9g}" data-log="{}{}" data-percent="{}{}" data-labels="{}|{}")",
        numberText(left_, 1), numberText(top_, 1), numberText(width_, 1), numberText(height_, 1), x_.low(),
        x_.high(), y_.low(), y_.high(), chart.x.log ? "x" : "", chart.y.log ? "y" : "",
        chart.x.percent ? "x" : "", chart.y.percent ? "y" : "", escaped(chart.x.label),
        escaped(chart.y.label));
  }

  std::string axes(const LineChart& chart) const {
    std::string lines;
    std::string texts;
    for (const Tick& tick : y_.ticks()) {
      const double y = top_ + height_ - y_.place(tick.value);
      lines += fmt::format("M{} {}h{}", numberText(left_, 1), numberText(y, 1), numberText(width_, 1));
      texts += textElement({left_ - 7, y + 4, Anchor::End, true}, tick.label);
    }
    std::string svg =
        fmt::format(R"(<path class="grid" fill="none" stroke="{}" d="{}"/>)", kGrid, lines) + "\n";
    lines =
        fmt::format("M{} {}h{}", numberText(left_, 1), numberText(top_ + height_, 1), numberText(width_, 1));
    const double bottom = top_ + height_;
    for (const Tick& tick : x_.ticks()) {
      const double x = left_ + x_.place(tick.value);
      lines += fmt::format("M{} {}v5", numberText(x, 1), numberText(bottom, 1));
      // The last label may not leave the picture.
      const double half = textWidth(tick.label, kFontSize) / 2;
      texts += textElement({std::min(x, left_ + width_ + 16 - half), bottom + 19, Anchor::Middle, true},
                           tick.label);
    }
    if (!chart.x.label.empty()) {
      texts += textElement({left_ + width_ / 2, bottom + 36, Anchor::Middle, true}, chart.x.label);
    }
    svg += fmt::format(R"(<path class="axis" fill="none" stroke="{}" d="{}"/>)", kMuted, lines) + "\n";
    return svg + texts + "\n";
  }

 private:
  double labelWidth() const {
    double width = 0;
    for (const Tick& tick : y_.ticks()) width = std::max(width, textWidth(tick.label, kFontSize));
    return width;
  }

  Ranges ranges_;
  double top_;
  double height_;
  AxisScale y_;
  double left_;
  double width_;
  AxisScale x_;
};

struct Line {
  double width = 2;
  double opacity = 1;
  std::string dashes = {};
  std::string caps = "round";
};

// Clipped to the plot by an <svg> of its size: that needs no id, which would have to be unique on a page.
std::string lineElement(const Plot& plot, const std::string& path, int colour, const Line& line) {
  if (path.empty()) return {};
  return fmt::format(
      R"(<svg width="{}" height="{}"><path class="stroke {}" fill="none" stroke="{}" stroke-width="{}"{}{} stroke-linejoin="round" stroke-linecap="{}" d="{}"/></svg>)",
      numberText(plot.width(), 1), numberText(plot.height(), 1), line.opacity < 1 ? "faint" : "curve",
      seriesColour(colour), numberText(line.width, 2),
      line.opacity < 1 ? fmt::format(R"( stroke-opacity="{}")", numberText(line.opacity, 2)) : "",
      line.dashes.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", line.dashes), line.caps, path);
}

// How a series' line is drawn. Runs that compute the same bits have the same curve: the `copy`-th of them has gaps, through
// which those below show.
Line lineStyle(const Drawn& drawn, int copy) {
  const bool dotted = drawn.series->style == Series::Style::DottedPoints;
  Line line;
  if (dotted) line = {.width = 1.5, .dashes = "1 4"};
  if (!dotted && drawn.colour >= kChartColours) line.dashes = "6 4";
  if (copy > 0) {
    line.dashes = dotted ? fmt::format("1 {}", 4 + 5 * copy) : fmt::format("9 {}", 9 * copy);
    if (!dotted) line.caps = "butt";
  }
  return line;
}

std::string pointElements(const Plot& plot, const std::vector<ChartPoint>& points, int colour,
                          double radius) {
  std::string svg;
  for (const ChartPoint& pixel : plot.pixels(points)) {
    if (!std::isfinite(pixel.x) || !plot.inside(pixel)) continue;
    svg += fmt::format(
        R"(<circle class="fill rim" cx="{}" cy="{}" r="{}" fill="{}" stroke="{}" stroke-width="{}"/>)",
        numberText(pixel.x, 2), numberText(pixel.y, 2), numberText(radius, 1), seriesColour(colour), kSurface,
        radius < 3 ? "1" : "1.5");
  }
  return svg;
}

std::string seriesElement(const Drawn& drawn, const std::string& body) {
  if (body.empty()) return {};
  return fmt::format(R"(<g class="series {}" data-name="{}" data-kind="{}">)", colourClass(drawn.colour),
                     escaped(drawn.series->name), escaped(drawn.series->kind)) +
         body + "</g>\n";
}

// The faint values of all, then all lines, then all points: nothing that matters is hidden.
std::string seriesElements(const Plot& plot, const std::vector<Drawn>& all) {
  std::string faint;
  std::string lines;
  std::string points;
  std::map<std::string, int> copies;
  for (const Drawn& drawn : all) {
    const auto& [series, curve, colour] = drawn;
    if (series->smoothed) {
      const std::string path = pathData(thinned(plot.pixels(series->points), 1.5), 1);
      faint += seriesElement(drawn, lineElement(plot, path, colour, {.width = 1, .opacity = 0.28}));
    }
    const std::string path = pathData(thinned(plot.pixels(curve), 1), 2);
    const int copy = copies[path]++;
    if (series->style != Series::Style::Points) {
      lines += seriesElement(drawn, lineElement(plot, path, colour, lineStyle(drawn, copy)));
    }
    const bool few = !series->smoothed && curve.size() <= kFewPoints;
    if (series->style != Series::Style::Line || few) {
      const bool small = curve.size() > 4 * kFewPoints || series->style == Series::Style::Line;
      // Copies are smaller: a ring of the point below stays.
      points += seriesElement(
          drawn, pointElements(plot, curve, colour, (small ? 3 : 4) - std::min(copy * 1.2, 2.4)));
    }
  }
  return fmt::format(R"svg(<g transform="translate({} {})">)svg", numberText(plot.left(), 1),
                     numberText(plot.top(), 1)) +
         "\n" + faint + lines + points + "</g>\n";
}

std::string lineChart(const LineChart& chart, const ChartOptions& options) {
  const std::vector<Drawn> drawn = drawnSeries(chart.series);
  std::string body;
  double top = 8;
  if (!chart.title.empty()) {
    body += textElement({.x = 2, .y = 18, .bold = true},
                        shortenedTo(chart.title, kTitleSize * kBoldWidth, options.width - 4)) +
            "\n";
    top = 28;
  }
  const Legend legend = makeLegend(legendOf(drawn), 2, top, options.width - 4);
  body += legend.body;
  top += legend.height + 6;
  if (!chart.y.label.empty()) {
    body += textElement({.x = 2, .y = top + 11, .muted = true}, chart.y.label) + "\n";
    top += 26;
  }
  const Plot plot(chart, drawn, options, top);
  body += plot.axes(chart) + seriesElements(plot, drawn);
  if (plot.empty()) {
    body += textElement({plot.left() + plot.width() / 2, top + plot.height() / 2, Anchor::Middle, true},
                        "no values") +
            "\n";
  }
  return svgElement(chart.title, Plot::totalHeight(options, top), options, plot.attributes(chart), body);
}

}  // namespace

std::string toSvg(const Chart& chart, const ChartOptions& options) {
  // The parts know nothing of the margin.
  ChartOptions inner = options;
  const int margin = options.standalone ? kMargin : 0;
  inner.width = std::max(160, options.width - 2 * margin);
  if (options.height > 0) inner.height = std::max(120, options.height - 2 * margin);
  if (const auto* line = std::get_if<LineChart>(&chart)) return lineChart(*line, inner);
  if (const auto* pie = std::get_if<PieChart>(&chart)) return pieChart(*pie, inner);
  return barChart(std::get<BarChart>(chart), inner);
}

}  // namespace cohort
