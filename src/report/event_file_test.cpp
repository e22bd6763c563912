#include "report/event_file.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <regex>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/record_file.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "report/event.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

const TrainPoint kTrain{.step = 20,
                        .epoch = 0.25,
                        .loss = 1.5,
                        .accuracy = 0.5,
                        .learningRate = 0.125,
                        .imagesPerSecond = 1000,
                        .elapsedSeconds = 4,
                        .seconds = {.data = 1, .forward = 2, .backward = 4, .update = 1}};
const EvaluationPoint kTest{.step = 20, .loss = 1.25, .accuracy = 0.75, .top5 = 1, .samples = 100};

// Sorted by name, as TensorBoard reads them.
std::vector<fs::path> filesIn(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

fs::path onlyFileIn(const fs::path& folder) {
  const std::vector<fs::path> files = filesIn(folder);
  EXPECT_EQ(files.size(), 1u) << folder;
  return files.at(0);
}

float scalar(const EventRecord& record, const std::string& tag) {
  const auto value = std::ranges::find(record.values, tag, &EventRecord::Value::tag);
  if (value == record.values.end() || !value->scalar) {
    ADD_FAILURE() << "no scalar " << tag;
    return -1;
  }
  return *value->scalar;
}

// The steps that TensorBoard shows of a tag: a second or later start mark drops what has its step or a later one.
std::vector<Step> shownSteps(const fs::path& folder, const std::string& tag) {
  std::vector<Step> steps;
  int starts = 0;
  for (const fs::path& path : filesIn(folder)) {
    for (const EventRecord& record : readEvents(path)) {
      if (record.sessionStart && ++starts > 1) std::erase_if(steps, [&](Step s) { return s >= record.step; });
      if (std::ranges::count(record.values, tag, &EventRecord::Value::tag) > 0) steps.push_back(record.step);
    }
  }
  return steps;
}

TEST(EventFiles, BeginWithTheVersionAndTheStart) {
  const TestDirectory directory;
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double before = now();
  const EventFiles files(directory / "events", 0);
  const fs::path path = onlyFileIn(directory / "events/train");
  EXPECT_TRUE(
      std::regex_match(path.filename().string(), std::regex(R"(events\.out\.tfevents\.\d{10}\..+\.\d+)")))
      << path;
  const std::vector<EventRecord> records = readEvents(path);
  ASSERT_EQ(records.size(), 2u) << "they are there at once, flushed";
  EXPECT_EQ(records[0].fileVersion, "brain.Event:2");
  EXPECT_EQ(records[0].step, 0);
  EXPECT_GE(records[0].wallTime, before);
  EXPECT_LE(records[0].wallTime, now());
  EXPECT_TRUE(records[1].sessionStart);
}

TEST(EventFiles, KeepTrainingAndEvaluationApart) {
  const TestDirectory directory;
  EventFiles files(directory.path(), 0);
  files.add(kTrain);
  files.add(kTest);
  EvaluationPoint validation = kTest;
  validation.split = "validation";
  validation.loss = 7;
  files.add(validation);
  files.flush();

  const std::vector<EventRecord> train = readEvents(onlyFileIn(directory / "train"));
  ASSERT_EQ(train.size(), 3u);
  EXPECT_EQ(train[2].step, 20);
  EXPECT_EQ(scalar(train[2], "loss"), 1.5f);
  EXPECT_EQ(scalar(train[2], "accuracy"), 0.5f);
  EXPECT_EQ(scalar(train[2], "epoch"), 0.25f);
  EXPECT_EQ(scalar(train[2], "learning_rate"), 0.125f);
  EXPECT_EQ(scalar(train[2], "images_per_second"), 1000.0f);
  EXPECT_EQ(scalar(train[2], "time/data"), 0.125f) << "a share of the whole";
  EXPECT_EQ(scalar(train[2], "time/forward"), 0.25f);
  EXPECT_EQ(scalar(train[2], "time/backward"), 0.5f);
  EXPECT_EQ(scalar(train[2], "time/update"), 0.125f);
  EXPECT_EQ(scalar(train[2], "time/checkpoint"), 0.0f);
  EXPECT_EQ(scalar(train[2], "time/evaluation"), 0.0f);

  const std::vector<EventRecord> test = readEvents(onlyFileIn(directory / "test"));
  ASSERT_EQ(test.size(), 3u);
  EXPECT_EQ(test[0].fileVersion, "brain.Event:2");
  EXPECT_EQ(scalar(test[2], "loss"), 1.25f);
  EXPECT_EQ(scalar(test[2], "accuracy"), 0.75f);
  EXPECT_EQ(scalar(test[2], "top5"), 1.0f);
  EXPECT_EQ(scalar(readEvents(onlyFileIn(directory / "validation")).at(2), "loss"), 7.0f);
}

TEST(EventFiles, LeaveOutTimeSharesWithoutATime) {
  const TestDirectory directory;
  EventFiles files(directory.path(), 0);
  TrainPoint point = kTrain;
  point.seconds = {};
  files.add(point);
  files.flush();
  const std::vector<EventRecord> records = readEvents(onlyFileIn(directory / "train"));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_FALSE(records[2].values.empty());
  for (const EventRecord::Value& value : records[2].values) {
    EXPECT_FALSE(value.tag.starts_with("time/")) << value.tag;
  }
}

TEST(EventFiles, KeepDistributions) {
  const TestDirectory directory;
  EventFiles files(directory.path(), 0);
  const std::vector<float> values = {-1, 0.5f, 0.5f, 3};
  files.add({.step = 7, .name = "weights/conv1.weight", .values = values});
  files.add({.step = 8, .name = "weights/none", .values = {}});
  files.flush();
  const std::vector<EventRecord> records = readEvents(onlyFileIn(directory / "train"));
  ASSERT_EQ(records.size(), 3u) << "nothing is written of nothing";
  EXPECT_EQ(records[2].step, 7);
  ASSERT_EQ(records[2].values.size(), 1u);
  EXPECT_EQ(records[2].values[0].tag, "weights/conv1.weight");
  ASSERT_TRUE(records[2].values[0].histogram.has_value());
  const Histogram& read = *records[2].values[0].histogram;
  const Histogram made = histogramOf(values);
  EXPECT_EQ(read.min, -1);
  EXPECT_EQ(read.max, 3);
  EXPECT_EQ(read.count, 4);
  EXPECT_EQ(read.sum, 3);
  EXPECT_EQ(read.sumSquares, 10.5);
  EXPECT_EQ(read.limits, made.limits);
  EXPECT_EQ(read.counts, made.counts);
}

TEST(EventFiles, OfAResumedRunReplaceThePointsAfterItsCheckpoint) {
  const TestDirectory directory;
  const auto train = [&](Step from, std::vector<Step> steps) {
    EventFiles files(directory.path(), from);
    for (const Step step : steps) {
      TrainPoint point = kTrain;
      point.step = step;
      files.add(point);
      EvaluationPoint evaluation = kTest;
      evaluation.step = step;
      files.add(evaluation);
    }
  };
  train(0, {10, 20, 30, 40});  // killed; its last checkpoint is of step 20
  train(20, {30, 35});         // within the same second; killed too
  train(20, {50});
  for (const char* folder : {"train", "test"}) {
    EXPECT_EQ(filesIn(directory / folder).size(), 3u);
    EXPECT_EQ(shownSteps(directory / folder, "loss"), (std::vector<Step>{10, 20, 50})) << folder;
  }
  train(0, {10});  // from the beginning again
  EXPECT_EQ(shownSteps(directory / "train", "loss"), (std::vector<Step>{10}));
}

TEST(EventFiles, SortBehindThoseThatAreThere) {
  const TestDirectory directory;
  fs::create_directories(directory / "train");
  const char* const earlier[] = {"events.out.tfevents.9000000000.zebra.1", "events.out.tfevents.7.a",
                                 "events.out.tfevents.99999999999.a", "events.out.tfevents.x", "notes"};
  for (const char* name : earlier) writeTestFile(directory / "train" / name, "");
  const EventFiles files(directory.path(), 0);
  EXPECT_TRUE(std::ranges::any_of(filesIn(directory / "train"), [](const fs::path& path) {
    return path.filename().string().starts_with("events.out.tfevents.9000000001.");
  }));
}

TEST(EventFiles, AreReadUpToATornLastRecord) {
  const TestDirectory directory;
  {
    EventFiles files(directory.path(), 0);
    files.add(kTrain);
  }
  const fs::path path = onlyFileIn(directory / "train");
  const std::string whole = readWholeFile(path);
  RecordReader reader(whole, "");
  reader.next();
  reader.next();
  for (std::size_t size = reader.offset(); size < whole.size(); ++size) {
    writeTestFile(path, whole.substr(0, size));
    EXPECT_EQ(readEvents(path).size(), 2u) << size;
  }
  writeTestFile(path, whole);
  EXPECT_EQ(readEvents(path).size(), 3u);
}

TEST(EventFiles, ThatAreDamagedAreRefused) {
  const TestDirectory directory;
  {
    EventFiles files(directory.path(), 0);
    files.add(kTrain);
  }
  const fs::path path = onlyFileIn(directory / "train");
  const std::string whole = readWholeFile(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    writeTestFile(path, damaged);
    EXPECT_THROW(readEvents(path), IoError) << at;
  }
  writeTestFile(path, frameRecord("\xff\xff\xff"));
  EXPECT_THROW(readEvents(path), IoError) << "a whole record, but no event";
  EXPECT_THROW(readEvents(directory / "missing"), IoError);
}

TEST(EventFiles, TellOfAFolderThatCannotBe) {
  const TestDirectory directory;
  writeTestFile(directory / "events", "a file");
  EXPECT_MENTIONS(errorOf<IoError>([&] { EventFiles(directory / "events", 0); }), "events/train");
}

// No file of this process may grow beyond a size: the same as a full disk to who writes.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(EventFiles, TellOfAFullDiskAndLoseNothing) {
  const TestDirectory directory;
  EventFiles files(directory.path(), 0);
  files.add(kTrain);
  files.flush();
  const fs::path path = onlyFileIn(directory / "train");
  for (Step step = 21; step < 30; ++step) {
    TrainPoint point = kTrain;
    point.step = step;
    files.add(point);
  }
  {
    const SizeLimit limit(fs::file_size(path) + 300);  // there is room for a record and a half
    EXPECT_MENTIONS(errorOf<IoError>([&] { files.flush(); }), path.string());
  }
  const std::string contents = readWholeFile(path);
  RecordReader reader(contents, "");
  for (int i = 0; i < 3; ++i) reader.next();
  EXPECT_EQ(reader.offset(), contents.size()) << "half a record is taken back";
  files.flush();
  const std::vector<EventRecord> records = readEvents(path);
  ASSERT_EQ(records.size(), 12u);
  for (std::size_t i = 2; i < records.size(); ++i) EXPECT_EQ(records[i].step, static_cast<Step>(18 + i));
}

// A file that TensorFlow wrote: every record has the frame that we would give it, and every event is read.
TEST(EventFiles, OfTensorFlowAreRead) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS names no folder of other programs' files";
  const fs::path path = fs::path(vectors) / "katib-train-events.out.tfevents.1637681485.2d662933d616.19.0.v2";
  const std::string contents = readWholeFile(path);
  RecordReader reader(contents, path.string());
  std::string framedAgain;
  int count = 0;
  while (const auto data = reader.next()) {
    ++count;
    appendRecord(framedAgain, *data);
    events::Event event;
    ASSERT_TRUE(event.ParseFromArray(data->data(), static_cast<int>(data->size())));
    EXPECT_EQ(event.ByteSizeLong(), data->size()) << "no field is lost";
  }
  EXPECT_EQ(count, 21);
  EXPECT_EQ(framedAgain, contents);

  const std::vector<EventRecord> records = readEvents(path);
  ASSERT_EQ(records.size(), 21u);
  EXPECT_EQ(records[0].fileVersion, "brain.Event:2");
  int losses = 0;
  for (const EventRecord& record : records) {
    EXPECT_NEAR(record.wallTime, 1637681485, 3600);
    for (const EventRecord::Value& value : record.values) {
      ASSERT_TRUE(value.scalar.has_value()) << value.tag;
      EXPECT_GT(*value.scalar, 0);
      EXPECT_LT(*value.scalar, 10);
      losses += value.tag == "loss" ? 1 : 0;
    }
  }
  EXPECT_EQ(losses, 10);
}

}  // namespace
}  // namespace cohort
