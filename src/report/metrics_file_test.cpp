#include "report/metrics_file.h"

#include <cmath>
#include <csignal>
#include <limits>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TrainPoint trainPoint(Step step) {
  return {
      .step = step,
      .epoch = 0.25,
      .loss = 0.1,
      .accuracy = 0.96875,
      .learningRate = 1e-4,
      .imagesPerSecond = 1502.6,
      .elapsedSeconds = 12.5,
      .seconds = {
          .data = 1, .forward = 2, .backward = 3, .update = 4, .wait = 7, .checkpoint = 5, .evaluation = 6}};
}

EvaluationPoint evaluationPoint(Step step, const std::string& split = "test") {
  return {.step = step, .split = split, .loss = 0.3, .accuracy = 0.9, .top5 = 0.99, .samples = 10000};
}

std::string readingFault(const std::filesystem::path& path) {
  return errorOf<IoError>([&] { readMetrics(path); });
}

class MetricsFileTest : public testing::Test {
 protected:
  std::string contents() const { return readWholeFile(path_); }
  void write(const std::vector<Step>& steps) const {
    MetricsFile file(path_, 0);
    for (const Step step : steps) file.add(trainPoint(step));
  }

  TestDirectory folder_;
  std::filesystem::path path_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsFileTest, HasOneObjectALineWithTheDocumentedKeys) {
  {
    MetricsFile file(path_, 0);
    file.add(trainPoint(10));
    file.add(evaluationPoint(10));
    file.add(evaluationPoint(20, "validation"));
  }
  const std::string time = R"re("time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"\}\n)re";
  const std::regex expected(
      R"re(\{"kind":"train","step":10,"epoch":0.25,"loss":0.1,"accuracy":0.96875,"lr":0.0001,"images_per_s":1502.6,)re"
      R"re("elapsed_s":12.5,"data_s":1.0,"forward_s":2.0,"backward_s":3.0,"update_s":4.0,"wait_s":7.0,"checkpoint_s":5.0,)re"
      R"re("evaluation_s":6.0,)re" +
      time + R"re(\{"kind":"test","step":10,"loss":0.3,"accuracy":0.9,"top5":0.99,"samples":10000,)re" +
      time + R"re(\{"kind":"validation","step":20,"loss":0.3,"accuracy":0.9,"top5":0.99,"samples":10000,)re" +
      time);
  EXPECT_TRUE(std::regex_match(contents(), expected)) << contents();
}

TEST_F(MetricsFileTest, IsReadAsItWasWritten) {
  {
    MetricsFile file(path_, 0);
    file.add(trainPoint(10));
    file.add(evaluationPoint(15));
    file.add(trainPoint(20));
    file.add(evaluationPoint(25, "validation"));
  }
  const Metrics metrics = readMetrics(path_);
  ASSERT_EQ(metrics.training.size(), 2u);
  ASSERT_EQ(metrics.evaluations.size(), 2u);
  const TrainPoint& point = metrics.training[1];
  EXPECT_EQ(point.step, 20);
  EXPECT_EQ(point.epoch, 0.25);
  EXPECT_EQ(point.loss, 0.1);
  EXPECT_EQ(point.accuracy, 0.96875);
  EXPECT_EQ(point.learningRate, 1e-4);
  EXPECT_EQ(point.imagesPerSecond, 1502.6);
  EXPECT_EQ(point.elapsedSeconds, 12.5);
  EXPECT_EQ(point.seconds.data, 1);
  EXPECT_EQ(point.seconds.forward, 2);
  EXPECT_EQ(point.seconds.backward, 3);
  EXPECT_EQ(point.seconds.update, 4);
  EXPECT_EQ(point.seconds.checkpoint, 5);
  EXPECT_EQ(point.seconds.evaluation, 6);
  EXPECT_EQ(metrics.evaluations[0].split, "test");
  EXPECT_EQ(metrics.evaluations[1].split, "validation");
  EXPECT_EQ(metrics.evaluations[1].step, 25);
  EXPECT_EQ(metrics.evaluations[1].top5, 0.99);
  EXPECT_EQ(metrics.evaluations[1].samples, 10000);
}

TEST_F(MetricsFileTest, WritesNumbersThatAreNotFiniteAsNull) {
  TrainPoint point = trainPoint(1);
  point.loss = kNaN;
  point.accuracy = std::numeric_limits<double>::infinity();
  point.seconds.data = -std::numeric_limits<double>::infinity();
  {
    MetricsFile file(path_, 0);
    file.add(point);
  }
  EXPECT_MENTIONS(contents(), R"("loss":null,"accuracy":null,)");
  EXPECT_MENTIONS(contents(), R"("data_s":null,)");
  EXPECT_TRUE(std::isnan(readMetrics(path_).training.at(0).loss));
}

TEST_F(MetricsFileTest, ShowsNothingBeforeAFlushAndAllAfterIt) {
  MetricsFile file(path_, 0);
  file.flush();
  EXPECT_EQ(contents(), "");
  file.add(trainPoint(1));
  file.flush();
  EXPECT_EQ(readMetrics(path_).training.size(), 1u);
  file.flush();
  EXPECT_EQ(readMetrics(path_).training.size(), 1u);
}

TEST_F(MetricsFileTest, DropsLaterStepsOfTheProcessBeforeAndKeepsOtherLinesByteForByte) {
  const std::string odd =
      R"( {"step" : 5, "kind":"test", "loss":1,"accuracy":1e0,"top5":null,"samples":3,"more":[1]} )"
      "\n";
  writeTestFile(path_, odd);
  {
    MetricsFile file(path_, 100);
    for (const Step step : {10, 20, 30}) file.add(trainPoint(step));
  }
  const std::string before = contents();
  { MetricsFile file(path_, 30); }
  EXPECT_EQ(contents(), before);
  {
    MetricsFile file(path_, 20);
    file.add(trainPoint(25));
  }
  const std::string after = contents();
  const std::size_t kept = before.find(R"({"kind":"train","step":30)");
  ASSERT_NE(kept, std::string::npos);
  EXPECT_EQ(after.substr(0, kept), before.substr(0, kept));
  EXPECT_EQ(after.rfind(odd, 0), 0u);
  const Metrics metrics = readMetrics(path_);
  ASSERT_EQ(metrics.training.size(), 3u);
  EXPECT_EQ(metrics.training[2].step, 25);
}

TEST_F(MetricsFileTest, KnowsTheEvaluationsOfTheStepWhereItGoesOn) {
  {
    MetricsFile file(path_, 0);
    EXPECT_FALSE(file.hasEvaluation("test"));
    file.add(evaluationPoint(10));
    file.add(trainPoint(20));
    file.add(evaluationPoint(20, "validation"));
    EXPECT_FALSE(file.hasEvaluation("validation")) << "written now, not found";
  }
  MetricsFile atTwenty(path_, 20);
  EXPECT_TRUE(atTwenty.hasEvaluation("validation"));
  EXPECT_FALSE(atTwenty.hasEvaluation("test"));
  EXPECT_FALSE(atTwenty.hasEvaluation("train"));
  MetricsFile atTen(path_, 10);
  EXPECT_TRUE(atTen.hasEvaluation("test"));
  EXPECT_FALSE(atTen.hasEvaluation("validation"));
}

TEST_F(MetricsFileTest, DropsATornLastLineAtEveryLength) {
  write({1, 2});
  const std::string whole = contents();
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t size = first; size + 1 < whole.size(); ++size) {
    writeTestFile(path_, whole.substr(0, size));
    EXPECT_EQ(readMetrics(path_).training.size(), 1u);
    MetricsFile file(path_, 2);
    EXPECT_EQ(contents(), whole.substr(0, first));
  }
}

TEST_F(MetricsFileTest, UsesALastLineThatLacksOnlyItsEnd) {
  write({1, 2});
  const std::string whole = contents();
  writeTestFile(path_, whole.substr(0, whole.size() - 1));
  EXPECT_EQ(readMetrics(path_).training.size(), 2u);
  // Its end may have been a part of the file that was lost: not kept by a run that goes on.
  MetricsFile file(path_, 2);
  EXPECT_EQ(contents(), whole.substr(0, whole.find('\n') + 1));
}

TEST_F(MetricsFileTest, IsReplacedInOneMove) {
  write({1, 2});
  struct stat before {};
  ASSERT_EQ(::stat(path_.c_str(), &before), 0);
  { MetricsFile file(path_, 1); }
  struct stat after {};
  ASSERT_EQ(::stat(path_.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino);  // another file took its place
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(MetricsFileTest, NamesTheFileAndTheLineOfWhatIsNoRecord) {
  write({1, 2, 3});
  const std::string whole = contents();
  const std::size_t second = whole.find('\n') + 1;
  const std::string good = whole.substr(0, second);
  const auto fault = [&](const std::string& line) {
    writeTestFile(path_, good + line + "\n" + good);
    std::string message = readingFault(path_);
    EXPECT_MENTIONS(message, "Line 2 of " + path_.string());
    return message;
  };
  const auto without = [&](const std::string& from, const std::string& to) {
    std::string line = good.substr(0, good.size() - 1);
    line.replace(line.find(from), from.size(), to);
    return line;
  };
  EXPECT_MENTIONS(fault(""), "no JSON object");
  EXPECT_MENTIONS(fault("{\"kind\":"), "no JSON object");
  EXPECT_MENTIONS(fault("[1]"), "no JSON object");
  EXPECT_MENTIONS(fault(without(R"("kind":"train",)", "")), "\"kind\" is missing");
  EXPECT_MENTIONS(fault(without(R"("train")", R"("trian")")), "not train, test or validation");
  EXPECT_MENTIONS(fault(without(R"("loss":0.1,)", "")), "\"loss\" is missing");
  EXPECT_MENTIONS(fault(without(R"("loss":0.1)", R"("loss":"0.1")")), "\"loss\" is no number");
  for (const char* step : {"1.5", "-1", "null", "18446744073709551615", "1e400"}) {
    EXPECT_MENTIONS(fault(without(R"("step":1)", std::string(R"("step":)") + step)), "Line 2");
  }
}

TEST_F(MetricsFileTest, RefusesToGoOnAfterALineThatIsNoRecord) {
  writeTestFile(path_, "{\"step\":1}\nnothing\n");
  EXPECT_THROW(MetricsFile(path_, 5), IoError);
  EXPECT_EQ(contents(), "{\"step\":1}\nnothing\n");
}

TEST_F(MetricsFileTest, TellsWhereItCannotBeOpened) {
  EXPECT_THROW(MetricsFile(folder_ / "nowhere" / "metrics.jsonl", 0), IoError);
  EXPECT_THROW(readMetrics(folder_ / "nothing"), IoError);
}

TEST_F(MetricsFileTest, TellsThatTheDiskIsFull) {
  MetricsFile file("/dev/full", 0);
  file.add(trainPoint(1));
  EXPECT_THROW(file.flush(), IoError);
}

// A limit on the size of files fails a write in the middle of a line, as a full disk does.
TEST_F(MetricsFileTest, GoesOnInTheMiddleOfALineWhenThereIsRoomAgain) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  {
    MetricsFile file(path_, 0);
    file.add(trainPoint(1));
    file.add(trainPoint(2));
    rlimit small = before;
    small.rlim_cur = 400;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THROW(file.flush(), IoError);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(contents().size(), 400u);
    file.flush();
  }
  const Metrics metrics = readMetrics(path_);
  ASSERT_EQ(metrics.training.size(), 2u);
  EXPECT_EQ(metrics.training[1].step, 2);
}

}  // namespace
}  // namespace cohort
