#include "report/report_charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "report/chart_curve.h"

namespace cohort {
namespace {

constexpr std::size_t kSmoothFrom = 16;  // fewer points are shown as they are
constexpr double kLogFrom = 30;          // losses further apart than this are shown on a logarithmic axis
constexpr double kMinute = 60;
constexpr double kHour = 3600;

double zeroIfNotFinite(double value) {
  return std::isfinite(value) ? value : 0;
}

Series trainingSeries(const RunRecords& run, int colour, double TrainPoint::*value) {
  Series series{.name = run.name, .kind = "training", .points = {}, .colour = colour};
  for (const TrainPoint& point : run.metrics.training) {
    series.points.push_back({static_cast<double>(point.step), point.*value});
  }
  series.smoothed = series.points.size() >= kSmoothFrom;
  if (series.smoothed) series.kind += ", smoothed";
  return series;
}

std::vector<Series> evaluationSeries(const RunRecords& run, int colour, double EvaluationPoint::*value) {
  Series test{
      .name = run.name, .kind = "test", .points = {}, .style = Series::Style::DottedPoints, .colour = colour};
  Series validation = test;
  validation.kind = "validation";
  validation.style = Series::Style::Points;
  for (const EvaluationPoint& point : run.metrics.evaluations) {
    Series& series = point.split == "validation" ? validation : test;
    series.points.push_back({static_cast<double>(point.step), point.*value});
  }
  std::vector<Series> found;
  if (!test.points.empty()) found.push_back(test);
  if (!validation.points.empty()) found.push_back(validation);
  return found;
}

bool hasValues(const std::vector<Series>& all) {
  return std::any_of(all.begin(), all.end(), [](const Series& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const ChartPoint& point) { return std::isfinite(point.y); });
  });
}

// Whether values span so much that a linear axis would show only the first of them.
bool needsLogAxis(const std::vector<Series>& all) {
  std::vector<double> values;
  for (const Series& series : all) {
    for (const ChartPoint& point : series.points) values.push_back(point.y);
  }
  const double low = quantile(values, 0.02);
  return low > 0 && quantile(values, 0.98) > kLogFrom * low;
}

std::vector<Series> curves(std::span<const RunRecords> runs, double TrainPoint::*training,
                           double EvaluationPoint::*evaluation) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const int colour = static_cast<int>(i);
    all.push_back(trainingSeries(runs[i], colour, training));
    for (Series& series : evaluationSeries(runs[i], colour, evaluation)) all.push_back(std::move(series));
  }
  return all;
}

// The wall time at a step, between the training points around it.
double timeAt(const RunRecords& run, const std::vector<double>& times, Step step) {
  const std::vector<TrainPoint>& points = run.metrics.training;
  const auto after =
      std::lower_bound(points.begin(), points.end(), step,
                       [](const TrainPoint& point, Step wanted) { return point.step < wanted; });
  if (after == points.end()) return times.empty() ? std::numeric_limits<double>::quiet_NaN() : times.back();
  const auto index = static_cast<std::size_t>(after - points.begin());
  const double fromTime = index == 0 ? 0 : times[index - 1];
  const Step fromStep = index == 0 ? 0 : points[index - 1].step;
  if (after->step <= fromStep) return times[index];
  const double part = static_cast<double>(step - fromStep) / static_cast<double>(after->step - fromStep);
  return fromTime + part * (times[index] - fromTime);
}

// What people who compare ways to train want to know: how good after which time.
LineChart accuracyOverTime(std::span<const RunRecords> runs) {
  LineChart chart{
      .title = "Accuracy over time", .x = {}, .y = {.label = "accuracy", .percent = true}, .series = {}};
  double longest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::vector<double> times = elapsedTimes(runs[i].metrics.training);
    for (Series& series : evaluationSeries(runs[i], static_cast<int>(i), &EvaluationPoint::accuracy)) {
      series.style = series.kind == "test" ? Series::Style::Line : Series::Style::Points;
      for (ChartPoint& point : series.points) {
        point.x = timeAt(runs[i], times, static_cast<Step>(point.x));
        longest = std::max(longest, zeroIfNotFinite(point.x));
      }
      chart.series.push_back(std::move(series));
    }
  }
  // One kind needs no entry in the legend.
  std::set<std::string> kinds;
  for (const Series& series : chart.series) kinds.insert(series.kind);
  if (kinds.size() == 1) {
    chart.y.label = "accuracy, " + *kinds.begin();
    for (Series& series : chart.series) series.kind.clear();
  }
  const double unit = longest > 2 * kHour ? kHour : longest > 2 * kMinute ? kMinute : 1;
  chart.x.label = unit == kHour ? "time, h" : unit == kMinute ? "time, min" : "time, s";
  for (Series& series : chart.series) {
    for (ChartPoint& point : series.points) point.x /= unit;
  }
  return chart;
}

// Of runs in virtual time: against what their workers' clocks said, or how many samples they had.
std::vector<Series> virtualCurves(std::span<const RunRecords> runs, double TrainPoint::*training,
                                  double EvaluationPoint::*evaluation, double (*where)(const VirtualClock&)) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunRecords run{
        .name = runs[i].name, .settings = {}, .metrics = runs[i].metrics, .outcome = {}, .layers = {}};
    const auto isReal = [](const auto& point) { return !point.clock.isThere(); };
    std::erase_if(run.metrics.training, isReal);
    std::erase_if(run.metrics.evaluations, isReal);
    std::map<double, double> places;  // by step
    for (const TrainPoint& point : run.metrics.training)
      places[static_cast<double>(point.step)] = where(point.clock);
    for (const EvaluationPoint& point : run.metrics.evaluations)
      places[static_cast<double>(point.step)] = where(point.clock);
    for (Series& series : curves({&run, 1}, training, evaluation)) {
      series.colour = static_cast<int>(i);
      for (ChartPoint& point : series.points) point.x = places[point.x];
      all.push_back(std::move(series));
    }
  }
  return all;
}

std::vector<ReportChart> virtualCharts(std::span<const RunRecords> runs) {
  std::vector<ReportChart> charts;
  struct Place {
    const char* name;
    const char* label;
    double (*where)(const VirtualClock&);
  };
  constexpr std::array kPlaces{
      Place{"virtual time", "virtual time, s", [](const VirtualClock& clock) { return clock.seconds; }},
      Place{"samples", "samples",
            [](const VirtualClock& clock) { return static_cast<double>(clock.samples); }}};
  for (const Place& place : kPlaces) {
    std::string file = place.name;
    std::ranges::replace(file, ' ', '-');
    std::vector<Series> losses = virtualCurves(runs, &TrainPoint::loss, &EvaluationPoint::loss, place.where);
    if (!hasValues(losses)) continue;
    const bool log = needsLogAxis(losses);
    charts.push_back(
        {fmt::format("loss-{}.svg", file),
         LineChart{.title = fmt::format("Loss over {}", place.name),
                   .x = {.label = place.label},
                   .y = {.label = log ? "cross-entropy, logarithmic" : "cross-entropy", .log = log},
                   .series = std::move(losses)}});
    charts.push_back({fmt::format("accuracy-{}.svg", file),
                      LineChart{.title = fmt::format("Accuracy over {}", place.name),
                                .x = {.label = place.label},
                                .y = {.label = "share of right answers", .percent = true},
                                .series = virtualCurves(runs, &TrainPoint::accuracy,
                                                        &EvaluationPoint::accuracy, place.where)}});
  }
  return charts;
}

LineChart learningRates(std::span<const RunRecords> runs) {
  std::vector<Series> rates;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    rates.push_back(trainingSeries(runs[i], static_cast<int>(i), &TrainPoint::learningRate));
    rates.back().smoothed = false;
    rates.back().kind.clear();
  }
  const bool log = needsLogAxis(rates);
  return {.title = "Learning rate",
          .x = {.label = "step"},
          .y = {.label = log ? "logarithmic" : "", .log = log},
          .series = std::move(rates)};
}

constexpr std::array<const char*, 7> kPartNames = {"data",    "forward",    "backward",  "update",
                                                   "waiting", "checkpoint", "evaluation"};
using Parts = std::array<double, kPartNames.size()>;

Parts partsOf(const TimeShares& seconds) {
  return {seconds.data, seconds.forward,    seconds.backward,  seconds.update,
          seconds.wait, seconds.checkpoint, seconds.evaluation};
}

bool hasTimes(const RunRecords& run) {
  const Parts parts = partsOf(totalSeconds(run));
  return std::any_of(parts.begin(), parts.end(), [](double part) { return part > 0; });
}

// A bar for each run that has times; a pie where there is only one run.
Chart timeShares(std::span<const RunRecords> runs) {
  const std::string title = "Where the time went";
  if (runs.size() == 1) {
    PieChart pie{.title = title, .unit = "s", .slices = {}};
    const Parts parts = partsOf(totalSeconds(runs[0]));
    for (std::size_t i = 0; i < parts.size(); ++i) pie.slices.push_back({kPartNames[i], parts[i]});
    return pie;
  }
  BarChart bars{.title = title,
                .axis = {.percent = true, .min = 0, .max = 1},
                .groups = {},
                .series = {},
                .stacked = true};
  for (const char* name : kPartNames) bars.series.push_back({.name = name, .values = {}});
  for (const RunRecords& run : runs) {
    const Parts parts = partsOf(totalSeconds(run));
    if (!hasTimes(run)) continue;
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    bars.groups.push_back(run.name);
    for (std::size_t i = 0; i < parts.size(); ++i) bars.series[i].values.push_back(parts[i] / sum);
  }
  return bars;
}

// conv, dense, pool, other: the same colours in every pie.
template <class Value>
PieChart pieOfKinds(const RunRecords& run, Value&& value) {
  PieChart chart{.title = {},
                 .subtitle = run.name,
                 .slices = {{"conv", 0, 0}, {"dense", 0, 1}, {"pool", 0, 2}, {"other", 0, 7}}};
  for (const LayerRecord& layer : run.layers) {
    const auto found = std::find_if(chart.slices.begin(), chart.slices.end() - 1,
                                    [&](const PieSlice& slice) { return slice.name == layer.kind; });
    found->value += std::max(0.0, zeroIfNotFinite(value(layer)));
  }
  return chart;
}

bool hasSlices(const PieChart& chart) {
  return std::any_of(chart.slices.begin(), chart.slices.end(),
                     [](const PieSlice& slice) { return slice.value > 0; });
}

// A run's name as a part of a file's.
std::string fileName(const std::string& name) {
  std::string file;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !file.empty());
    file += plain ? c : '-';
  }
  return file;
}

}  // namespace

TimeShares totalSeconds(const RunRecords& run) {
  TimeShares sum;
  const auto add = [&](const TimeShares& seconds) {
    sum.data += std::max(0.0, zeroIfNotFinite(seconds.data));
    sum.forward += std::max(0.0, zeroIfNotFinite(seconds.forward));
    sum.backward += std::max(0.0, zeroIfNotFinite(seconds.backward));
    sum.update += std::max(0.0, zeroIfNotFinite(seconds.update));
    sum.wait += std::max(0.0, zeroIfNotFinite(seconds.wait));
    sum.checkpoint += std::max(0.0, zeroIfNotFinite(seconds.checkpoint));
    sum.evaluation += std::max(0.0, zeroIfNotFinite(seconds.evaluation));
  };
  for (const TrainPoint& point : run.metrics.training) add(point.seconds);
  const Parts parts = partsOf(sum);
  const bool told = std::any_of(parts.begin(), parts.end(), [](double part) { return part > 0; });
  if (!told && run.outcome) add(run.outcome->seconds);
  return sum;
}

std::vector<double> elapsedTimes(const std::vector<TrainPoint>& points) {
  std::vector<double> times;
  times.reserve(points.size());
  double before = 0;  // of the processes that ended
  double last = 0;
  for (const TrainPoint& point : points) {
    const double elapsed = std::isfinite(point.elapsedSeconds) ? point.elapsedSeconds : last;
    // A process that resumed counts from 0 again.
    if (elapsed < last) before += last;
    last = elapsed;
    times.push_back(before + elapsed);
  }
  return times;
}

std::vector<ReportChart> runCharts(std::span<const RunRecords> runs) {
  std::vector<ReportChart> charts;
  const auto add = [&](const std::string& file, LineChart chart) {
    if (hasValues(chart.series)) charts.push_back({file, std::move(chart)});
  };
  std::vector<Series> losses = curves(runs, &TrainPoint::loss, &EvaluationPoint::loss);
  const bool log = needsLogAxis(losses);
  add("loss.svg", {.title = "Loss",
                   .x = {.label = "step"},
                   .y = {.label = log ? "cross-entropy, logarithmic" : "cross-entropy", .log = log},
                   .series = std::move(losses)});
  add("accuracy.svg", {.title = "Accuracy",
                       .x = {.label = "step"},
                       .y = {.label = "share of right answers", .percent = true},
                       .series = curves(runs, &TrainPoint::accuracy, &EvaluationPoint::accuracy)});
  for (ReportChart& chart : virtualCharts(runs)) charts.push_back(std::move(chart));
  if (runs.size() > 1) add("accuracy-time.svg", accuracyOverTime(runs));
  std::vector<Series> speeds;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    speeds.push_back(trainingSeries(runs[i], static_cast<int>(i), &TrainPoint::imagesPerSecond));
    speeds.back().kind.clear();
  }
  if (runs.size() > 1) add("learning-rate.svg", learningRates(runs));
  add("throughput.svg", {.title = "Throughput",
                         .x = {.label = "step"},
                         .y = {.label = "images/s", .min = 0},
                         .series = std::move(speeds)});
  const bool timed = std::any_of(runs.begin(), runs.end(), hasTimes);
  if (timed) charts.push_back({"time-shares.svg", timeShares(runs)});
  return charts;
}

std::vector<ReportChart> layerCharts(std::span<const RunRecords> runs) {
  std::vector<ReportChart> charts;
  std::set<std::string> used;
  for (const RunRecords& run : runs) {
    // Different names may become the same file's.
    std::string file = fileName(run.name);
    for (int number = 2; !used.insert(file).second; ++number)
      file = fmt::format("{}-{}", fileName(run.name), number);
    PieChart weights = pieOfKinds(run, [](const LayerRecord& layer) { return layer.parameters; });
    weights.title = "Weights by kind of layer";
    weights.unit = "parameters";
    if (hasSlices(weights)) charts.push_back({fmt::format("weight-shares-{}.svg", file), std::move(weights)});
    PieChart time = pieOfKinds(run, [](const LayerRecord& layer) {
      return zeroIfNotFinite(layer.forwardSeconds) + zeroIfNotFinite(layer.backwardSeconds);
    });
    time.title = "Time by kind of layer";
    if (hasSlices(time)) charts.push_back({fmt::format("layer-time-shares-{}.svg", file), std::move(time)});
  }
  return charts;
}

}  // namespace cohort
