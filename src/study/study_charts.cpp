#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "study/study_report.h"

namespace cohort {
namespace {

// What a chart shows of one finished run.
struct Value {
  std::string series = {};
  std::string xText = {};
  double x = 0;
  double y = 0;
};

class ChartMaker {
 public:
  ChartMaker(const Study& study, std::span<const RunRecord> records, const StudyChart& wanted)
      : study_(study), wanted_(wanted) {
    for (const RunRecord& record : records) {
      if (record.finished && isWanted(record)) records_.push_back(&record);
    }
    const auto varied = std::find(study.varied.begin(), study.varied.end(), wanted.x);
    if (varied != study.varied.end()) column_ = varied - study.varied.begin();
    settings_ = seriesSettings();
  }

  Chart make(const std::string& y) const {
    const std::vector<Value> values = valuesOf(y);
    const bool numbers =
        std::all_of(values.begin(), values.end(), [](const Value& value) { return std::isfinite(value.x); });
    if (column_ >= 0 && !numbers) return bars(y, values);
    return lines(y, values);
  }

  // What each run recorded while it went.
  Chart curves(const std::string& y) const;

 private:
  bool isWanted(const RunRecord& record) const;
  std::vector<std::size_t> seriesSettings() const;
  std::string seriesOf(const RunRecord& record) const;
  std::vector<Value> valuesOf(const std::string& y) const;
  Chart lines(const std::string& y, const std::vector<Value>& values) const;
  Chart bars(const std::string& y, const std::vector<Value>& values) const;
  Axis yAxis(const std::string& y) const {
    return {.label = y,
            .log = wanted_.logY,
            .percent = y.ends_with("accuracy") || y.ends_with("top5"),
            .min = wanted_.yMin,
            .max = wanted_.yMax};
  }
  std::string title(const std::string& y) const {
    return wanted_.title.empty() ? fmt::format("{} over {}", y, wanted_.x) : wanted_.title;
  }

  const Study& study_;
  const StudyChart& wanted_;
  std::vector<const RunRecord*> records_;  // finished, and wanted
  std::ptrdiff_t column_ = -1;             // of x among the varied settings; -1: x is a measured value
  std::vector<std::size_t> settings_;
};

bool ChartMaker::isWanted(const RunRecord& record) const {
  return std::ranges::all_of(wanted_.where, [&](const auto& condition) {
    const auto setting = std::ranges::find(study_.varied, condition.first) - study_.varied.begin();
    return std::ranges::find(condition.second, record.varied[static_cast<std::size_t>(setting)]) !=
           condition.second.end();
  });
}

// The settings other than x that name the lines: those that the chart wants, or all whose values differ.
std::vector<std::size_t> ChartMaker::seriesSettings() const {
  std::vector<std::size_t> settings;
  for (std::size_t i = 0; i < study_.varied.size(); ++i) {
    std::set<std::string> values;
    for (const RunRecord* record : records_) values.insert(record->varied[i]);
    const bool isNamed = wanted_.lines.empty()
                             ? values.size() > 1
                             : std::ranges::find(wanted_.lines, study_.varied[i]) != wanted_.lines.end();
    if (study_.varied[i] != wanted_.x && isNamed) settings.push_back(i);
  }
  return settings;
}

std::string ChartMaker::seriesOf(const RunRecord& record) const {
  std::string name;
  for (const std::size_t i : settings_)
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", study_.varied[i], record.varied[i]);
  return name;
}

std::vector<Value> ChartMaker::valuesOf(const std::string& y) const {
  std::vector<Value> values;
  for (const RunRecord* record : records_) {
    const auto measured = numberOf(study_, *record, y);
    if (!measured) continue;
    Value value{
        .series = seriesOf(*record), .x = numberOf(study_, *record, wanted_.x).value_or(NAN), .y = *measured};
    if (column_ >= 0) value.xText = record->varied[static_cast<std::size_t>(column_)];
    if (value.series.empty()) value.series = y;
    values.push_back(std::move(value));
  }
  return values;
}

// Nothing where the run has no such clock.
std::optional<double> placeOf(const std::string& axis, Step step, const VirtualClock& clock,
                              const RunConfig& config) {
  if (axis == "virtual_s") return clock.isThere() ? std::optional(clock.seconds) : std::nullopt;
  return static_cast<double>(axis == "samples" ? step * config.batchSize : step);
}

std::vector<ChartPoint> curveOf(const RunRecord& record, const std::string& y, const std::string& x) {
  std::vector<ChartPoint> points;
  const auto add = [&](const auto& point, double value) {
    if (const auto place = placeOf(x, point.step, point.clock, record.run->config))
      points.push_back({.x = *place, .y = value});
  };
  for (const TrainPoint& point : record.metrics.training) {
    if (y == "loss") add(point, point.loss);
    if (y == "accuracy") add(point, point.accuracy);
  }
  for (const EvaluationPoint& point : record.metrics.evaluations) {
    if (y == "test_loss") add(point, point.loss);
    if (y == "test_accuracy") add(point, point.accuracy);
    if (y == "test_top5") add(point, point.top5);
  }
  return points;
}

Chart ChartMaker::curves(const std::string& y) const {
  LineChart chart{
      .title = title(y), .x = {.label = wanted_.x, .log = wanted_.logX}, .y = yAxis(y), .series = {}};
  std::vector<std::string> names;
  for (const RunRecord* record : records_) {
    std::vector<ChartPoint> points = curveOf(*record, y, wanted_.x);
    if (points.empty()) continue;
    std::string name = seriesOf(*record);
    if (name.empty()) name = y;
    const auto known = std::ranges::find(names, name);
    const auto colour = static_cast<int>(known - names.begin());
    if (known == names.end()) names.push_back(name);
    chart.series.push_back({.name = std::move(name),
                            .points = std::move(points),
                            .smoothed = !y.starts_with("test_"),
                            .colour = colour});
  }
  return chart;
}

std::vector<std::string> inOrder(const std::vector<Value>& values, std::string Value::*member) {
  std::vector<std::string> names;
  for (const Value& value : values) {
    if (std::find(names.begin(), names.end(), value.*member) == names.end()) names.push_back(value.*member);
  }
  return names;
}

// Means over repetitions, x ascending.
std::vector<ChartPoint> means(const std::vector<ChartPoint>& points) {
  std::map<double, std::pair<double, int>> sums;
  for (const ChartPoint& point : points) {
    sums[point.x].first += point.y;
    ++sums[point.x].second;
  }
  std::vector<ChartPoint> result;
  result.reserve(sums.size());
  for (const auto& [x, sum] : sums) result.push_back({.x = x, .y = sum.first / sum.second});
  return result;
}

Chart ChartMaker::lines(const std::string& y, const std::vector<Value>& values) const {
  LineChart chart{
      .title = title(y), .x = {.label = wanted_.x, .log = wanted_.logX}, .y = yAxis(y), .series = {}};
  int colour = 0;
  for (const std::string& name : inOrder(values, &Value::series)) {
    std::vector<ChartPoint> points;
    for (const Value& value : values) {
      if (value.series == name && std::isfinite(value.x)) points.push_back({.x = value.x, .y = value.y});
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    std::vector<ChartPoint> line = means(points);
    const bool repeated = line.size() < points.size();
    // Measured values over measured values are a cloud: nothing lies between its points.
    if (column_ < 0 || repeated) {
      chart.series.push_back({.name = name,
                              .kind = repeated ? "runs" : "",
                              .points = points,
                              .style = Series::Style::Points,
                              .colour = colour});
    }
    if (column_ >= 0) {
      chart.series.push_back(
          {.name = name, .kind = repeated ? "mean" : "", .points = std::move(line), .colour = colour});
    }
    ++colour;
  }
  return chart;
}

Chart ChartMaker::bars(const std::string& y, const std::vector<Value>& values) const {
  BarChart chart{.title = title(y), .axis = yAxis(y), .groups = inOrder(values, &Value::xText), .series = {}};
  chart.axis.log = false;  // a bar begins at 0
  for (const std::string& name : inOrder(values, &Value::series)) {
    BarSeries series{.name = name, .values = {}};
    for (const std::string& group : chart.groups) {
      double sum = 0;
      int count = 0;
      for (const Value& value : values) {
        if (value.series != name || value.xText != group) continue;
        sum += value.y;
        ++count;
      }
      series.values.push_back(count == 0 ? NAN : sum / count);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

const std::vector<std::string>& curveNames() {
  static const std::vector<std::string> names{"loss", "accuracy", "test_loss", "test_accuracy", "test_top5"};
  return names;
}

const std::vector<std::string>& curveAxes() {
  static const std::vector<std::string> names{"step", "samples", "virtual_s"};
  return names;
}

std::vector<NamedChart> studyCharts(const Study& study, std::span<const RunRecord> records) {
  std::vector<NamedChart> charts;
  for (std::size_t i = 0; i < study.charts.size(); ++i) {
    const ChartMaker maker(study, records, study.charts[i]);
    const auto fileOf = [&](const std::string& y) { return fmt::format("chart-{}-{}.svg", i + 1, y); };
    for (const std::string& y : study.charts[i].y)
      charts.push_back({.file = fileOf(y), .chart = maker.make(y)});
    for (const std::string& y : study.charts[i].curves)
      charts.push_back({.file = fileOf(y), .chart = maker.curves(y)});
  }
  return charts;
}

}  // namespace cohort
