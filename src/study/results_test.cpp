#include "study/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "study/study_report.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Study twoAxes() {
  return studyFromYaml(
      "settings: {network: mnist-fc}\n"
      "vary:\n  batch-size: [50, 100]\n  optimizer: [sgd, adam]\n"
      "repeat: 2\n"
      "measure: [accuracy, loss, weights_hash]\n"
      "chart:\n"
      "  - {x: batch-size, y: [accuracy, loss], log-x: true}\n"
      "  - {x: optimizer, y: accuracy}\n"
      "  - {x: elapsed_s, y: accuracy}\n",
      "s.yaml", builtinNetworks());
}

std::vector<RunRecord> recordsOf(const Study& study) {
  std::vector<RunRecord> records;
  for (const StudyRun& run : study.runs) {
    RunRecord record{.run = &run, .varied = {run.given.at("batch-size")[0], run.given.at("optimizer")[0]}};
    records.push_back(std::move(record));
  }
  return records;
}

void finish(RunRecord& record, double accuracy) {
  record.finished = true;
  record.outcome.exitCode = 0;
  record.outcome.attempts = 1;
  record.summary = Json{{"accuracy", accuracy}, {"loss", nullptr}, {"elapsed_s", 2.5}, {"start_step", 0}};
}

TEST(Csv, QuotesAsRfc4180Says) {
  EXPECT_EQ(csvField("plain text"), "plain text");
  EXPECT_EQ(csvField(""), "");
  EXPECT_EQ(csvField("a,b"), "\"a,b\"");
  EXPECT_EQ(csvField("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csvField("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csvField("\r"), "\"\r\"");
}

TEST(Csv, HasARowForEveryRunThatEnded) {
  const Study study = twoAxes();
  std::vector<RunRecord> records = recordsOf(study);
  finish(records[0], 0.5);
  records[0].summary["network"] = "a,\"b\"";
  records[0].summary["optimizer"] = "another";
  records[0].summary["list"] = {1, 2};
  records[1].outcome = {.attempts = 3, .exitCode = 137, .wallSeconds = 1.25};
  records[2].outcome.attempts = 1;  // began, and nobody saw it end
  EXPECT_EQ(
      resultsCsv(study, records),
      "run,repetition,batch-size,optimizer,exit_code,attempts,wall_s,accuracy,loss,elapsed_s,start_step,"
      "network,summary_optimizer\n"
      "batch-size=50_optimizer=sgd,1,50,sgd,0,1,0.000,0.5,,2.5,0,\"a,\"\"b\"\"\",another\n"
      "batch-size=50_optimizer=adam,1,50,adam,137,3,1.250,,,,,,\n");
}

TEST(Outcome, IsReadAsItWasWritten) {
  const TestDirectory folder;
  const Study study = twoAxes();
  const StudyRunOutcome outcome{.command = {"cohort", "train"},
                                .attempts = 2,
                                .exitCode = 3,
                                .wallSeconds = 1.5,
                                .lastLine = "cannot \xff write",
                                .machine = "m"};
  writeOutcome(folder.path(), outcome);
  const RunRecord record = readRecord(study, study.runs[0], folder.path(), builtinNetworks());
  EXPECT_EQ(record.outcome.command, outcome.command);
  EXPECT_EQ(record.outcome.attempts, 2);
  EXPECT_EQ(record.outcome.exitCode, 3);
  EXPECT_EQ(record.outcome.wallSeconds, 1.5);
  EXPECT_THAT(record.outcome.lastLine, HasSubstr("write"));
  EXPECT_TRUE(record.ended());
  EXPECT_FALSE(record.finished);
}

TEST(Outcome, DamagedFilesCountAsAbsent) {
  const TestDirectory folder;
  const Study study = twoAxes();
  for (const char* text : {"", "{", "[1]", "{\"attempts\": \"many\"}"}) {
    writeTestFile(folder / "outcome.json", text);
    writeTestFile(folder / "summary.json", text);
    const RunRecord record = readRecord(study, study.runs[0], folder.path(), builtinNetworks());
    EXPECT_EQ(record.outcome.attempts, 0);
    EXPECT_FALSE(record.ended());
  }
}

TEST(Outcome, ASettingThatARunLeavesOpenHasItsResolvedValue) {
  const Study study =
      studyFromYaml("settings: {network: mnist-fc}\nvary: {lr: [0.5]}\nruns: [{batch-size: 50}]\n", "s.yaml",
                    builtinNetworks());
  const RunRecord first = readRecord(study, study.runs[0], "/nonexistent", builtinNetworks());
  EXPECT_EQ(first.varied, (std::vector<std::string>{"0.5", "100"}));
}

TEST(LastLine, IsTheLastThatHasMoreThanBlanks) {
  const TestDirectory folder;
  EXPECT_EQ(lastLineOf(folder / "absent"), "");
  writeTestFile(folder / "file", "one\ntwo\n  \n\n");
  EXPECT_EQ(lastLineOf(folder / "file"), "two");
  writeTestFile(folder / "file", std::string(100000, 'x') + "\nend");
  EXPECT_EQ(lastLineOf(folder / "file"), "end");
}

TEST(Charts, HaveALineForEachCombinationOfTheOtherSettingsThroughTheMeans) {
  const Study study = twoAxes();
  std::vector<RunRecord> records = recordsOf(study);  // 50 sgd, 50 adam, 100 sgd, 100 adam; twice
  for (std::size_t i = 0; i < records.size(); ++i) finish(records[i], 0.1 * static_cast<double>(i + 1));
  const std::vector<NamedChart> charts = studyCharts(study, records);
  ASSERT_EQ(charts.size(), 4U);
  EXPECT_EQ(charts[0].file, "chart-1-accuracy.svg");
  EXPECT_EQ(charts[2].file, "chart-2-accuracy.svg");
  const auto& lines = std::get<LineChart>(charts[0].chart);
  EXPECT_TRUE(lines.x.log);
  ASSERT_EQ(lines.series.size(), 4U);
  EXPECT_EQ(lines.series[0].name, "optimizer sgd");
  EXPECT_EQ(lines.series[0].points.size(), 4U) << "every repetition";
  const Series& mean = lines.series[1];
  EXPECT_EQ(mean.colour, lines.series[0].colour);
  ASSERT_EQ(mean.points.size(), 2U);
  EXPECT_EQ(mean.points[0].x, 50);
  EXPECT_DOUBLE_EQ(mean.points[0].y, 0.3);  // of 0.1 and 0.5
  EXPECT_EQ(mean.points[1].x, 100);
  EXPECT_DOUBLE_EQ(mean.points[1].y, 0.5);  // of 0.3 and 0.7

  const auto& bars = std::get<BarChart>(charts[2].chart);
  EXPECT_EQ(bars.groups, (std::vector<std::string>{"sgd", "adam"}));
  ASSERT_EQ(bars.series.size(), 2U);
  EXPECT_EQ(bars.series[0].name, "batch-size 50");
  EXPECT_DOUBLE_EQ(bars.series[0].values[0], 0.3);
  EXPECT_DOUBLE_EQ(bars.series[1].values[1], 0.6);  // of 0.4 and 0.8

  const auto& cloud = std::get<LineChart>(charts[3].chart);
  for (const Series& series : cloud.series) EXPECT_EQ(series.style, Series::Style::Points);
}

TEST(Charts, DrawWhatChosenRunsRecordedAsTheyWent) {
  const Study study = studyFromYaml(
      "settings: {network: mnist-fc}\n"
      "vary:\n  batch-size: [50, 100]\n  optimizer: [sgd, adam]\n"
      "chart:\n"
      "  - {x: samples, curve: [test_accuracy, loss], where: {optimizer: sgd}, y-min: 0.9}\n"
      "  - {x: virtual_s, curve: test_loss, lines: optimizer}\n",
      "s.yaml", builtinNetworks());
  std::vector<RunRecord> records = recordsOf(study);  // 50 sgd, 50 adam, 100 sgd, 100 adam
  for (RunRecord& record : records) {
    finish(record, 0.5);
    record.metrics.training.emplace_back().step = 10;
    record.metrics.training.back().loss = 2;
    record.metrics.evaluations = {{.step = 10, .accuracy = 0.25}, {.step = 20, .accuracy = 0.5}};
  }
  records[3].metrics.evaluations[1].loss = 7;
  records[3].metrics.evaluations[1].clock = {.seconds = 3, .samples = 2000};
  const std::vector<NamedChart> charts = studyCharts(study, records);
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[0].file, "chart-1-test_accuracy.svg");
  const auto& accuracy = std::get<LineChart>(charts[0].chart);
  EXPECT_EQ(accuracy.y.min, 0.9);
  EXPECT_TRUE(accuracy.y.percent);
  ASSERT_EQ(accuracy.series.size(), 2U) << "the others are of another optimizer";
  EXPECT_EQ(accuracy.series[1].name, "batch-size 100");
  ASSERT_EQ(accuracy.series[1].points.size(), 2U);
  EXPECT_EQ(accuracy.series[1].points[1].x, 2000) << "20 steps of 100 samples";
  EXPECT_EQ(accuracy.series[1].points[1].y, 0.5);
  EXPECT_EQ(std::get<LineChart>(charts[1].chart).series[0].points[0].y, 2);

  const auto& inTime = std::get<LineChart>(charts[2].chart);
  ASSERT_EQ(inTime.series.size(), 1U) << "others have no virtual time";
  EXPECT_EQ(inTime.series[0].name, "optimizer adam");
  EXPECT_EQ(inTime.series[0].points[0].x, 3);
  EXPECT_EQ(inTime.series[0].points[0].y, 7);
}

TEST(Curves, AreReadFromTheRunsRecordsWhereTheStudyDrawsSome) {
  const TestDirectory folder;
  writeTestFile(folder / "metrics.jsonl", "");
  {
    MetricsFile file(folder / "metrics.jsonl", 0);
    file.add(EvaluationPoint{.step = 5, .accuracy = 0.75});
    file.flush();
  }
  const std::string_view text = "settings: {network: mnist-fc}\nvary: {lr: [0.5]}\n";
  const Study plain = studyFromYaml(text, "s.yaml", builtinNetworks());
  EXPECT_TRUE(readRecord(plain, plain.runs[0], folder.path(), builtinNetworks()).metrics.evaluations.empty());
  const Study study = studyFromYaml(std::string(text) + "chart: {x: step, curve: test_accuracy}\n", "s.yaml",
                                    builtinNetworks());
  const RunRecord record = readRecord(study, study.runs[0], folder.path(), builtinNetworks());
  ASSERT_EQ(record.metrics.evaluations.size(), 1U);
  EXPECT_EQ(record.metrics.evaluations[0].accuracy, 0.75);
  writeTestFile(folder / "metrics.jsonl", "nonsense\n");
  EXPECT_TRUE(readRecord(study, study.runs[0], folder.path(), builtinNetworks()).metrics.evaluations.empty());
}

TEST(Charts, OfNothingAreEmptyPictures) {
  const Study study = twoAxes();
  std::vector<RunRecord> records = recordsOf(study);
  finish(records[0], 0.5);
  for (const NamedChart& chart : studyCharts(study, records))
    EXPECT_THAT(toSvg(chart.chart), HasSubstr("<svg"));
}

TEST(Page, ShowsMeansTheirSpreadAndWhatFailed) {
  const Study study = twoAxes();
  std::vector<RunRecord> records = recordsOf(study);
  finish(records[0], 0.5);
  finish(records[4], 0.7);  // the same point again
  records[4].summary["start_step"] = 20;
  records[1].outcome = {.attempts = 1, .exitCode = 2, .lastLine = "<bad> & worse"};
  const std::string page = studyPage(study, records, {});
  EXPECT_THAT(page, HasSubstr("2 of 8 runs finished"));
  EXPECT_THAT(page, HasSubstr("0.6 ± 0.14"));
  EXPECT_THAT(page, HasSubstr("&lt;bad&gt; &amp; worse"));
  EXPECT_THAT(page, Not(HasSubstr("<bad>")));
  EXPECT_THAT(page, HasSubstr("1 run was stopped and resumed"));
  EXPECT_THAT(page, HasSubstr("runs/batch-size=50_optimizer=sgd/output.txt"));
}

TEST(Report, KeepsNoChartThatTheFileNoLongerAsksFor) {
  const TestDirectory folder;
  Study study = twoAxes();
  const std::vector<RunRecord> records = recordsOf(study);
  writeStudyReport(study, records, folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder / "chart-1-loss.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder / "report.html"));
  study.charts.erase(study.charts.begin());
  writeStudyReport(study, records, folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "chart-1-loss.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder / "chart-1-accuracy.svg"));
}

}  // namespace
}  // namespace cohort
