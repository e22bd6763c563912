#include "launch/worker_message.h"

#include <climits>
#include <cmath>

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Kind = WorkerMessage::Kind;

WorkerMessage there(const WorkerMessage& message) {
  const std::string line = toLine(message);
  EXPECT_LE(line.size(), static_cast<std::size_t>(PIPE_BUF));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto back = parseLine(std::string_view{line}.substr(0, line.size() - 1));
  EXPECT_TRUE(back);
  return back.value_or(WorkerMessage{});
}

TEST(WorkerMessage, ComesBackAsItWas) {
  WorkerMessage alive{
      .worker = 3, .process = 77, .step = 12, .isTraining = true, .mayRest = true, .beats = 99};
  alive.doing = "computing";
  alive.waitsFor = "worker 1: its part of step 12";
  alive.waitsForAnother = true;
  const WorkerMessage sign = there(alive);
  EXPECT_EQ(sign.kind, Kind::Alive);
  EXPECT_EQ(sign.worker, 3);
  EXPECT_EQ(sign.process, 77);
  EXPECT_EQ(sign.step, 12);
  EXPECT_TRUE(sign.isTraining);
  EXPECT_TRUE(sign.mayRest);
  EXPECT_EQ(sign.beats, 99U);
  EXPECT_EQ(sign.doing, alive.doing);
  EXPECT_EQ(sign.waitsFor, alive.waitsFor);
  EXPECT_TRUE(sign.waitsForAnother);

  WorkerMessage failed{.kind = Kind::Failed, .worker = 1};
  failed.text = "Cannot write \"a\": the disk\nis full";
  failed.exitCode = 3;
  EXPECT_EQ(there(failed).text, failed.text);
  EXPECT_EQ(there(failed).exitCode, 3);
  EXPECT_FALSE(there(failed).isServer);
  failed.isServer = true;
  EXPECT_TRUE(there(failed).isServer);

  WorkerMessage progress{.kind = Kind::Progress};
  progress.progress = {.step = 5, .targetStep = 10, .loss = std::nan(""), .imagesPerSecond = 1.5};
  progress.progress.seconds.wait = 0.25;
  progress.progress.logPoint = true;
  const WorkerMessage shown = there(progress);
  EXPECT_EQ(shown.progress.step, 5);
  EXPECT_TRUE(std::isnan(shown.progress.loss));
  EXPECT_EQ(shown.progress.imagesPerSecond, 1.5);
  EXPECT_EQ(shown.progress.seconds.wait, 0.25);
  EXPECT_FALSE(shown.progress.accuracy);
  EXPECT_TRUE(shown.progress.logPoint);
}

TEST(WorkerMessage, LongTextsAreCutToWhatAPipeTakesAtOnce) {
  WorkerMessage failed{.kind = Kind::Failed};
  failed.text = std::string(100'000, '\x01') + "\xff";  // every one of these is six characters in JSON
  EXPECT_TRUE(there(failed).text.starts_with("\x01"));
}

TEST(WorkerMessage, OtherLinesAreNone) {
  for (const char* line : {"", "{}", "[1]", "mpirun has something to say", R"({"kind":0,"worker":"x"})",
                           R"({"kind":99,"worker":0})", R"({"kind":1,"worker":0,"text":5})"}) {
    EXPECT_FALSE(parseLine(line)) << line;
  }
}

}  // namespace
}  // namespace cohort
