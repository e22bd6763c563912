#include "report/chart_bars.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "report/chart_scale.h"
#include "report/svg.h"

namespace cohort {
namespace {

// The title's element; `top` moves below it.
std::string titleElement(const std::string& title, double width, double& top) {
  if (title.empty()) return {};
  top += 26;
  return textElement({.x = 2, .y = top - 8, .bold = true},
                     shortenedTo(title, kTitleSize * kBoldWidth, width - 4)) +
         "\n";
}

std::string percentText(double share) {
  const double percent = share * 100;
  return numberText(percent, percent >= 99.95 || percent < 0.05 ? 0 : 1) + "%";
}

// ---- pies

struct Slice {
  std::string name;
  double value = 0;
  double share = 0;
  int colour = 0;
};

std::vector<Slice> slicesOf(const PieChart& chart) {
  std::vector<Slice> slices;
  double largest = 0;
  int next = 0;
  for (const PieSlice& slice : chart.slices) {
    const int colour = slice.colour >= 0 ? slice.colour : next;
    next = std::max(next, colour + 1);
    if (!std::isfinite(slice.value) || slice.value <= 0) continue;
    slices.push_back({slice.name, slice.value, 0, colour});
    largest = std::max(largest, slice.value);
  }
  // Divided by the largest first: sums of large values stay finite.
  double sum = 0;
  for (const Slice& slice : slices) sum += slice.value / largest;
  for (Slice& slice : slices) slice.share = slice.value / largest / sum;
  return slices;
}

struct Circle {
  double x = 0;
  double y = 0;
  double radius = 0;

  // Clockwise from the top; `turn` 0 … 1.
  double atX(double turn, double part) const {
    return x + radius * part * std::sin(2 * std::numbers::pi * turn);
  }
  double atY(double turn, double part) const {
    return y - radius * part * std::cos(2 * std::numbers::pi * turn);
  }
};

std::string sliceElement(const Circle& circle, const Slice& slice, double from) {
  const double to = from + slice.share;
  std::string svg = fmt::format(R"(<g class="slice {}"><title>{}: {}</title>)", colourClass(slice.colour),
                                escaped(slice.name), percentText(slice.share));
  if (slice.share > 0.9999) {
    svg += fmt::format(R"(<circle class="fill" cx="{}" cy="{}" r="{}" fill="{}"/>)", numberText(circle.x, 2),
                       numberText(circle.y, 2), numberText(circle.radius, 2), seriesColour(slice.colour));
  } else {
    svg += fmt::format(
        R"(<path class="fill rim" fill="{}" stroke="{}" stroke-width="1.5" stroke-linejoin="round" d="M{} {}L{} {}A{} {} 0 {} 1 {} {}Z"/>)",
        seriesColour(slice.colour), kSurface, numberText(circle.x, 2), numberText(circle.y, 2),
        numberText(circle.atX(from, 1), 2), numberText(circle.atY(from, 1), 2), numberText(circle.radius, 2),
        numberText(circle.radius, 2), slice.share > 0.5 ? 1 : 0, numberText(circle.atX(to, 1), 2),
        numberText(circle.atY(to, 1), 2));
  }
  if (slice.share >= 0.08) {
    const double middle = from + slice.share / 2;
    const double part = slice.share > 0.9999 ? 0 : 0.66;
    svg += fmt::format(
        R"(<text class="surface" x="{}" y="{}" text-anchor="middle" font-weight="600" fill="{}">{}</text>)",
        numberText(circle.atX(middle, part), 1), numberText(circle.atY(middle, part) + 4, 1), kSurface,
        numberText(slice.share * 100, 0) + "%");
  }
  return svg + "</g>\n";
}

// Beside a pie: name, value where wanted, percentage.
struct PieTable {
  double left = 0;
  double right = 0;
  bool values = false;

  std::string row(const Slice& slice, double y) const {
    const double nameWidth = right - left - (values ? 106 : 56);
    std::string svg = makeLegend({{slice.name, slice.colour}}, left, y, nameWidth).body;
    if (values) svg += textElement({right - 54, y + 13, Anchor::End, true}, shortNumber(slice.value));
    return svg + textElement({right, y + 13, Anchor::End}, fmt::format("{:.1f}%", slice.share * 100)) + "\n";
  }
};

// ---- bars

constexpr double kGroupName = 18;
constexpr double kGroupGap = 10;

int colourOf(const BarChart& chart, std::size_t series) {
  return chart.series[series].colour >= 0 ? chart.series[series].colour : static_cast<int>(series);
}

// What can be drawn of a value.
double barValue(const BarSeries& series, std::size_t group) {
  const double value = group < series.values.size() ? series.values[group] : 0;
  return std::isfinite(value) ? std::max(value, 0.0) : 0;
}

std::string valueText(const Axis& axis, double value) {
  return axis.percent ? percentText(value) : shortNumber(value);
}

ValueRange rangeOf(const BarChart& chart) {
  ValueRange range;
  range.add(0);
  for (std::size_t group = 0; group < chart.groups.size(); ++group) {
    double sum = 0;
    for (const BarSeries& series : chart.series) {
      sum += barValue(series, group);
      range.add(chart.stacked ? sum : barValue(series, group));
    }
  }
  return range;
}

struct Bar {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

std::string barElement(const Bar& bar, const std::string& what, int colour, const std::string& inside) {
  std::string svg = fmt::format(
      R"(<g class="bar {}"><title>{}</title><rect class="fill" x="{}" y="{}" width="{}" height="{}" rx="2" fill="{}"/>)",
      colourClass(colour), escaped(what), numberText(bar.left, 2), numberText(bar.top, 2),
      numberText(bar.width, 2), numberText(bar.height, 2), seriesColour(colour));
  if (!inside.empty()) {
    svg += fmt::format(
        R"(<text class="surface" x="{}" y="{}" text-anchor="middle" font-weight="600" fill="{}">{}</text>)",
        numberText(bar.left + bar.width / 2, 1), numberText(bar.top + bar.height / 2 + 4, 1), kSurface,
        escaped(inside));
  }
  return svg + "</g>\n";
}

// One bar with a segment for every series.
std::string stackedGroup(const BarChart& chart, std::size_t group, const AxisScale& scale, double left,
                         double top) {
  std::string svg;
  double sum = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const double value = barValue(chart.series[i], group);
    const double from = scale.place(sum);
    sum += value;
    const double width = scale.place(sum) - from;
    if (width < 0.05) continue;
    const std::string text = valueText(chart.axis, value);
    const bool fits = textWidth(text, kFontSize) + 8 < width;
    // A gap between segments, as far as there is room for one.
    svg +=
        barElement({left + from, top, std::max(width - 1, width / 2), 24},
                   fmt::format("{}: {}", chart.series[i].name, text), colourOf(chart, i), fits ? text : "");
  }
  return svg;
}

std::string groupedBars(const BarChart& chart, std::size_t group, const AxisScale& scale, double left,
                        double top) {
  std::string svg;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const double value = barValue(chart.series[i], group);
    const std::string text = valueText(chart.axis, value);
    const double width = scale.place(value);
    svg += barElement({left, top, width, 16}, fmt::format("{}: {}", chart.series[i].name, text),
                      colourOf(chart, i), "");
    svg += textElement({.x = left + width + 6, .y = top + 12, .muted = true}, text) + "\n";
    top += 19;
  }
  return svg;
}

std::string barAxis(const BarChart& chart, const AxisScale& scale, double left, double top, double bottom,
                    double width) {
  std::string lines;
  std::string texts;
  for (const Tick& tick : scale.ticks()) {
    const double x = left + scale.place(tick.value);
    lines += fmt::format("M{} {}V{}", numberText(x, 1), numberText(top, 1), numberText(bottom, 1));
    const double half = textWidth(tick.label, kFontSize) / 2;
    texts += textElement({std::clamp(x, half, width - half), bottom + 16, Anchor::Middle, true}, tick.label);
  }
  if (!chart.axis.label.empty()) {
    texts += textElement({width / 2, bottom + 34, Anchor::Middle, true}, chart.axis.label);
  }
  return fmt::format(R"(<path class="grid" fill="none" stroke="{}" d="{}"/>)", kGrid, lines) + "\n" + texts +
         "\n";
}

}  // namespace

std::string pieChart(const PieChart& chart, const ChartOptions& options) {
  const std::vector<Slice> slices = slicesOf(chart);
  double top = 0;
  std::string body = titleElement(chart.title, options.width, top);
  if (!chart.subtitle.empty()) {
    const std::string text = shortenedTo(chart.subtitle, kFontSize, options.width - 4);
    body += textElement({.x = 2, .y = top + 9, .muted = true}, text) + "\n";
    top += 20;
  }
  const bool beside = options.width >= 260;
  const double radius = std::clamp(options.width * (beside ? 0.2 : 0.33), 56.0, 96.0);
  const Circle circle{beside ? radius + 2 : options.width / 2.0, top + radius + 2, radius};
  double turn = 0;
  double sum = 0;
  for (const Slice& slice : slices) {
    body += sliceElement(circle, slice, turn);
    turn += slice.share;
    sum += slice.value;
  }
  const double rows = 22 * static_cast<double>(slices.size() + (chart.unit.empty() ? 0 : 1));
  const double left = beside ? 2 * radius + 24 : 4;
  double y = beside ? std::max(top + 2, circle.y - rows / 2) : circle.y + radius + 14;
  const PieTable table{left, std::min(options.width - 4.0, left + 230), !chart.unit.empty()};
  for (const Slice& slice : slices) {
    body += table.row(slice, y);
    y += 22;
  }
  if (!chart.unit.empty()) {
    body += textElement({.x = left + 22, .y = y + 13, .muted = true},
                        fmt::format("{} {}", shortNumber(sum), chart.unit)) +
            "\n";
    y += 22;
  }
  if (slices.empty()) body += textElement({circle.x, circle.y, Anchor::Middle, true}, "no values") + "\n";
  return svgElement(chart.title, std::max(y, circle.y + radius) + 4, options, "", body);
}

std::string barChart(const BarChart& chart, const ChartOptions& options) {
  double top = 0;
  std::string body = titleElement(chart.title, options.width, top);
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    entries.push_back({chart.series[i].name, colourOf(chart, i)});
  if (entries.size() < 2 && !chart.stacked) entries.clear();
  const Legend legend = makeLegend(entries, 0, top, options.width);
  body += legend.body;
  top += legend.height + 8;

  const bool named = std::any_of(chart.groups.begin(), chart.groups.end(),
                                 [](const std::string& name) { return !name.empty(); });
  const double bars = chart.stacked ? 24 : 19 * static_cast<double>(chart.series.size());
  const double groupHeight = (named ? kGroupName : 0) + bars + kGroupGap;
  const double bottom =
      top + groupHeight * static_cast<double>(std::max<std::size_t>(chart.groups.size(), 1));
  const double width = options.width - 4 - (chart.stacked ? 0 : 48);
  const AxisScale scale(chart.axis, rangeOf(chart), width, static_cast<int>(width / 90), !chart.axis.max);
  body += barAxis(chart, scale, 2, top, bottom, options.width);
  for (std::size_t group = 0; group < chart.groups.size(); ++group) {
    const double y = top + groupHeight * static_cast<double>(group);
    if (named) {
      body +=
          textElement({.x = 2, .y = y + 12}, shortenedTo(chart.groups[group], kFontSize, options.width - 4)) +
          "\n";
    }
    const double barTop = y + (named ? kGroupName : 0);
    body += chart.stacked ? stackedGroup(chart, group, scale, 2, barTop)
                          : groupedBars(chart, group, scale, 2, barTop);
  }
  if (chart.groups.empty() || chart.series.empty()) {
    body += textElement({options.width / 2.0, top + 20, Anchor::Middle, true}, "no values") + "\n";
  }
  return svgElement(chart.title, bottom + (chart.axis.label.empty() ? 26 : 44), options, "", body);
}

}  // namespace cohort
