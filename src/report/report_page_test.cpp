#include "report/report_page.h"

#include <cmath>
#include <limits>
#include <regex>

#include <gtest/gtest.h>

#include "report/report_charts.h"

namespace cohort {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A finished run of 40 log points and 4 evaluations.
RunRecords finishedRun(const std::string& name, const std::string& hash = "0123456789abcdef") {
  RunRecords run{.name = name, .settings = {}, .metrics = {}, .outcome = {}, .layers = {}};
  run.settings = {{"network", "alexnet"}, {"dataset", "flowers"}, {"lr", "0.01"}};
  for (int i = 1; i <= 40; ++i) {
    run.metrics.training.push_back(
        {.step = 10 * i,
         .epoch = 0.1 * i,
         .loss = 2.0 / i,
         .accuracy = 1 - 0.5 / i,
         .learningRate = 0.01,
         .imagesPerSecond = 400.0 + i,
         .elapsedSeconds = 3.0 * i,
         .seconds = {.data = 0.1, .forward = 0.9, .backward = 1.8, .update = 0.2}});
    if (i % 10 == 0) {
      run.metrics.evaluations.push_back(
          {.step = 10 * i, .split = "test", .loss = 2.2 / i, .accuracy = 0.9, .top5 = 0.99, .samples = 100});
    }
  }
  run.outcome = RunOutcome{.network = "alexnet",
                           .dataset = "flowers",
                           .step = 400,
                           .loss = 0.05,
                           .accuracy = 0.9123,
                           .top5 = kNaN,
                           .testLoss = 0.06,
                           .elapsedSeconds = 125,
                           .imagesPerSecond = 1234.5,
                           .peakMemoryBytes = 1e9,
                           .threads = 4,
                           .seconds = {},
                           .weightsHash = hash,
                           .interrupted = false};
  run.layers = {{"conv1", "conv 3x3 8", "conv", "8x8x8", 80, 5000, 0.001, 0.003},
                {"norm1", "batch-norm", "norm", "8x8x8", 16, 0, 0.0005, kNaN},
                {"fc", "dense 10", "dense", "10", 5130, 5120, 0.0005, 0.001}};
  return run;
}

std::string pageOf(const std::vector<RunRecords>& runs) {
  return reportPage(runs);
}

std::vector<std::string> filesOf(const std::vector<ReportChart>& charts) {
  std::vector<std::string> files;
  for (const ReportChart& chart : charts) files.push_back(chart.file);
  return files;
}

const LineChart& lineChart(const std::vector<ReportChart>& charts, const std::string& file) {
  for (const ReportChart& chart : charts) {
    if (chart.file == file) return std::get<LineChart>(chart.chart);
  }
  throw std::runtime_error("no " + file);
}

TEST(ReportPage, NeedsNothingElse) {
  const std::string page = pageOf({finishedRun("a"), finishedRun("b")});
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "xmlns"}) {
    EXPECT_FALSE(contains(page, outside)) << outside;
  }
  EXPECT_EQ(count(page, "<style>"), 1u);
  EXPECT_EQ(count(page, "<script>"), 1u);
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
}

TEST(ReportPage, HasTheSameBytesForTheSameRecords) {
  EXPECT_EQ(pageOf({finishedRun("a"), finishedRun("b")}), pageOf({finishedRun("a"), finishedRun("b")}));
}

TEST(ReportPage, TellsWhatOneRunCameTo) {
  const std::string page = pageOf({finishedRun("my run")});
  EXPECT_TRUE(contains(page, "<h1>my run</h1>"));
  for (const char* fact :
       {"alexnet on flowers", "91.23%", "0.0500", ">400<", "1,235", "2:05", "0123456789ab<"}) {
    EXPECT_TRUE(contains(page, fact)) << fact;
  }
  EXPECT_FALSE(contains(page, "unfinished"));
  EXPECT_FALSE(contains(page, "Where the runs differ"));
  EXPECT_FALSE(contains(page, "nan"));
}

TEST(ReportPage, DrawsEveryChartForWideAndNarrowScreens) {
  const std::string page = pageOf({finishedRun("a"), finishedRun("b")});
  for (const char* title :
       {"Loss", "Accuracy", "Accuracy over time", "Learning rate", "Throughput", "Where the time went"}) {
    EXPECT_EQ(count(page, std::string("aria-label=\"") + title + "\""), 2u) << title;
  }
  // Of each run: weights and time by kind.
  EXPECT_EQ(count(page, "aria-label=\"Weights by kind of layer\""), 2u);
  EXPECT_EQ(count(page, "aria-label=\"Time by kind of layer\""), 2u);
}

TEST(ReportPage, SaysWhichRunsEndedWithTheSameWeights) {
  const std::string page =
      pageOf({finishedRun("a"), finishedRun("b", "ff"), finishedRun("c"), finishedRun("d", "")});
  EXPECT_TRUE(contains(page, "<p>a and c have the same weights, bit for bit.</p>"));
  EXPECT_EQ(count(page, "bit for bit"), 1u);
}

TEST(ReportPage, ShowsOnlySettingsThatDifferUnlessUnfolded) {
  RunRecords second = finishedRun("b");
  second.settings = {{"network", "alexnet"}, {"dataset", "flowers"}, {"lr", "0.02"}, {"extra", "1"}};
  const std::string page = pageOf({finishedRun("a"), second});
  const std::string folded = page.substr(0, page.find("<summary>All settings"));
  EXPECT_TRUE(contains(folded, "<tr><th>lr</th><td>0.01</td><td>0.02</td></tr>"));
  EXPECT_TRUE(contains(folded, "<tr><th>extra</th><td></td><td>1</td></tr>"));
  EXPECT_FALSE(contains(folded, "<tr><th>network</th>"));
  EXPECT_TRUE(contains(page, "<tr><th>network</th><td>alexnet</td><td>alexnet</td></tr>"));
  EXPECT_TRUE(contains(pageOf({finishedRun("a"), finishedRun("b")}), "All runs have the same settings."));
}

TEST(ReportPage, ShowsARunThatStillGoesOn) {
  RunRecords run = finishedRun("a");
  run.outcome.reset();
  const std::string page = pageOf({run});
  EXPECT_TRUE(contains(page, "unfinished"));
  EXPECT_TRUE(contains(page, "90.00%"));
  EXPECT_TRUE(contains(page, "test, step 400"));
  EXPECT_TRUE(contains(page, "<p class=\"muted\">alexnet on flowers</p>"));
  // A summary of an earlier process does not speak for the one that runs now.
  run.outcome = finishedRun("a").outcome;
  run.outcome->step = 100;
  EXPECT_TRUE(contains(pageOf({run}), "unfinished"));
  EXPECT_FALSE(contains(pageOf({run}), "0123456789ab"));
}

TEST(ReportPage, ShowsRunsWithLittleOrNothingToShow) {
  RunRecords bare = finishedRun("bare");
  bare.metrics = {};
  bare.outcome.reset();
  bare.layers.clear();
  EXPECT_TRUE(contains(pageOf({bare}), "No log points yet."));
  EXPECT_FALSE(contains(pageOf({bare}), "<h2>Layers"));
  bare.settings.clear();
  EXPECT_FALSE(contains(pageOf({bare}), "<h2>Settings"));

  RunRecords unevaluated = finishedRun("unevaluated");
  unevaluated.metrics.evaluations.clear();
  unevaluated.outcome->accuracy = kNaN;
  const std::string page = pageOf({unevaluated, bare});
  EXPECT_TRUE(contains(page, "aria-label=\"Accuracy\""));
  EXPECT_FALSE(contains(page, "Accuracy over time"));
  EXPECT_FALSE(contains(page, "nan"));
}

TEST(ReportPage, EscapesEveryText) {
  const std::string bad = "<i>&\"'";
  RunRecords run = finishedRun(bad, bad);
  run.outcome->network = run.outcome->dataset = bad;
  run.settings.emplace_back(bad, bad);
  run.layers[0] = {bad, bad, bad, bad, 1, 1, 1, 1};
  run.metrics.evaluations[0].split = "validation";
  for (const std::string& page : {pageOf({run}), pageOf({run, finishedRun("b")})}) {
    EXPECT_FALSE(contains(page, "<i>"));
    EXPECT_FALSE(contains(page, "&\"'"));
    EXPECT_TRUE(contains(page, "&lt;i&gt;&amp;&quot;&#39;"));
  }
}

TEST(ReportCharts, HaveFilesOfTheirOwn) {
  const std::vector<RunRecords> runs = {finishedRun("x/a"), finishedRun("x a"), finishedRun("..")};
  EXPECT_EQ(filesOf(runCharts(runs)),
            (std::vector<std::string>{"loss.svg", "accuracy.svg", "accuracy-time.svg", "learning-rate.svg",
                                      "throughput.svg", "time-shares.svg"}));
  EXPECT_EQ(filesOf(layerCharts(runs)),
            (std::vector<std::string>{"weight-shares-x-a.svg", "layer-time-shares-x-a.svg",
                                      "weight-shares-x-a-2.svg", "layer-time-shares-x-a-2.svg",
                                      "weight-shares--..svg", "layer-time-shares--..svg"}));
}

TEST(ReportCharts, DividePiesByKindOfLayer) {
  const std::vector<RunRecords> runs = {finishedRun("a")};
  const std::vector<ReportChart> charts = layerCharts(runs);
  ASSERT_EQ(charts.size(), 2u);
  const auto values = [](const Chart& chart) {
    std::vector<double> found;
    for (const PieSlice& slice : std::get<PieChart>(chart).slices) found.push_back(slice.value);
    return found;
  };
  EXPECT_EQ(values(charts[0].chart), (std::vector<double>{80, 5130, 0, 16}));
  EXPECT_EQ(values(charts[1].chart), (std::vector<double>{0.004, 0.0015, 0, 0.0005}));
}

TEST(ReportCharts, UseALogarithmicAxisWhereLossesSpanMuch) {
  RunRecords calm = finishedRun("a");
  for (TrainPoint& point : calm.metrics.training) point.loss = 1 + 1.0 / static_cast<double>(point.step);
  for (EvaluationPoint& point : calm.metrics.evaluations) point.loss = 1;
  RunRecords steep = finishedRun("b");
  for (TrainPoint& point : steep.metrics.training)
    point.loss = std::exp(-0.02 * static_cast<double>(point.step));
  EXPECT_FALSE(lineChart(runCharts({&calm, 1}), "loss.svg").y.log);
  EXPECT_TRUE(lineChart(runCharts({&steep, 1}), "loss.svg").y.log);
}

TEST(ReportCharts, ShowPointsOfShortRunsAsTheyAre) {
  RunRecords run = finishedRun("a");
  EXPECT_TRUE(lineChart(runCharts({&run, 1}), "loss.svg").series[0].smoothed);
  run.metrics.training.resize(5);
  EXPECT_FALSE(lineChart(runCharts({&run, 1}), "loss.svg").series[0].smoothed);
}

TEST(ReportCharts, CountTheTimeOfAllProcesses) {
  std::vector<TrainPoint> points(4);
  points[0].elapsedSeconds = 10;
  points[1].elapsedSeconds = 20;
  points[2].elapsedSeconds = 5;  // resumed
  points[3].elapsedSeconds = 15;
  EXPECT_EQ(elapsedTimes(points), (std::vector<double>{10, 20, 25, 35}));
}

TEST(ReportCharts, PutEvaluationsAtTheirTimes) {
  RunRecords run = finishedRun("a");  // 3 s for 10 steps
  run.metrics.evaluations = {{.step = 25, .accuracy = 0.5}, {.step = 400, .accuracy = 0.9}};
  const std::vector<RunRecords> runs = {run, finishedRun("b")};
  const std::vector<ReportChart> charts = runCharts(runs);
  const LineChart& chart = lineChart(charts, "accuracy-time.svg");
  EXPECT_EQ(chart.x.label, "time, s");
  ASSERT_EQ(chart.series.at(0).points.size(), 2u);
  EXPECT_DOUBLE_EQ(chart.series[0].points[0].x, 7.5);
  EXPECT_DOUBLE_EQ(chart.series[0].points[1].x, 120);
}

TEST(ReportCharts, TakeTimesFromTheSummaryWhereMetricsHaveNone) {
  RunRecords run = finishedRun("a");
  EXPECT_NEAR(totalSeconds(run).backward, 72, 1e-9);
  for (TrainPoint& point : run.metrics.training) point.seconds = {};
  run.outcome->seconds.backward = 5;
  EXPECT_EQ(totalSeconds(run).backward, 5);
}

}  // namespace
}  // namespace cohort
