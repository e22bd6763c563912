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

// The settings other than x whose values differ among the finished runs: they name the lines.
std::vector<std::size_t> seriesSettings(const Study& study, std::span<const RunRecord> records,
                                        const std::string& x) {
  std::vector<std::size_t> settings;
  for (std::size_t i = 0; i < study.varied.size(); ++i) {
    std::set<std::string> values;
    for (const RunRecord& record : records) {
      if (record.finished) values.insert(record.varied[i]);
    }
    if (study.varied[i] != x && values.size() > 1) settings.push_back(i);
  }
  return settings;
}

class ChartMaker {
 public:
  ChartMaker(const Study& study, std::span<const RunRecord> records, const StudyChart& wanted)
      : study_(study), records_(records), wanted_(wanted) {
    const auto varied = std::find(study.varied.begin(), study.varied.end(), wanted.x);
    if (varied != study.varied.end()) column_ = varied - study.varied.begin();
    settings_ = seriesSettings(study, records, wanted.x);
  }

  Chart make(const std::string& y) const {
    const std::vector<Value> values = valuesOf(y);
    const bool numbers =
        std::all_of(values.begin(), values.end(), [](const Value& value) { return std::isfinite(value.x); });
    if (column_ >= 0 && !numbers) return bars(y, values);
    return lines(y, values);
  }

 private:
  std::vector<Value> valuesOf(const std::string& y) const;
  Chart lines(const std::string& y, const std::vector<Value>& values) const;
  Chart bars(const std::string& y, const std::vector<Value>& values) const;
  Axis yAxis(const std::string& y) const {
    return {.label = y, .log = wanted_.logY, .percent = y == "accuracy" || y == "top5"};
  }
  std::string title(const std::string& y) const {
    return wanted_.title.empty() ? fmt::format("{} over {}", y, wanted_.x) : wanted_.title;
  }

  const Study& study_;
  std::span<const RunRecord> records_;
  const StudyChart& wanted_;
  std::ptrdiff_t column_ = -1;  // of x among the varied settings; -1: x is a measured value
  std::vector<std::size_t> settings_;
};

std::vector<Value> ChartMaker::valuesOf(const std::string& y) const {
  std::vector<Value> values;
  for (const RunRecord& record : records_) {
    const auto measured = numberOf(study_, record, y);
    if (!record.finished || !measured) continue;
    Value value{.x = numberOf(study_, record, wanted_.x).value_or(NAN), .y = *measured};
    if (column_ >= 0) value.xText = record.varied[static_cast<std::size_t>(column_)];
    for (const std::size_t i : settings_) {
      value.series +=
          fmt::format("{}{} {}", value.series.empty() ? "" : ", ", study_.varied[i], record.varied[i]);
    }
    if (value.series.empty()) value.series = y;
    values.push_back(std::move(value));
  }
  return values;
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

std::vector<NamedChart> studyCharts(const Study& study, std::span<const RunRecord> records) {
  std::vector<NamedChart> charts;
  for (std::size_t i = 0; i < study.charts.size(); ++i) {
    const ChartMaker maker(study, records, study.charts[i]);
    for (const std::string& y : study.charts[i].y) {
      charts.push_back({.file = fmt::format("chart-{}-{}.svg", i + 1, y), .chart = maker.make(y)});
    }
  }
  return charts;
}

}  // namespace cohort
