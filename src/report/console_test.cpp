#include "report/console.h"

#include <limits>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace cohort {
namespace {

const ProgressReport kReport{
    .step = 120, .targetStep = 900, .loss = 0.51234, .imagesPerSecond = 1502.6, .secondsLeft = 52.2};

TEST(ProgressText, ShowsWhatTheWidthHasRoomFor) {
  const std::string whole = "step 120/900  loss 0.5123  1,503 images/s  0:52 left";
  EXPECT_EQ(progressText(kReport, 200), whole);
  EXPECT_EQ(progressText(kReport, 80), whole);
  EXPECT_EQ(progressText(kReport, 53), whole);
  EXPECT_EQ(progressText(kReport, 52), "step 120/900  loss 0.5123  1,503 images/s");
  EXPECT_EQ(progressText(kReport, 40), "step 120/900  loss 0.5123  0:52 left");
  EXPECT_EQ(progressText(kReport, 20), "step 120/900  loss ");
  EXPECT_EQ(progressText(kReport, 1), "");
  EXPECT_EQ(progressText(kReport, 0), "");
}

TEST(ProgressText, NeverReachesTheLastColumn) {
  for (int width = 1; width < 100; ++width) EXPECT_LT(std::ssize(progressText(kReport, width)), width);
}

TEST(ProgressText, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(progressText({.step = 3, .loss = 2, .imagesPerSecond = 9.87}, 80),
            "step 3  loss 2.0000  9.9 images/s");
  ProgressReport report = kReport;
  for (const double unknown :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    report.secondsLeft = unknown;
    EXPECT_EQ(progressText(report, 80), "step 120/900  loss 0.5123  1,503 images/s");
  }
}

TEST(ConsoleText, Clock) {
  EXPECT_EQ(clockText(0), "0:00");
  EXPECT_EQ(clockText(-3), "0:00");
  EXPECT_EQ(clockText(9.4), "0:09");
  EXPECT_EQ(clockText(59.6), "1:00");
  EXPECT_EQ(clockText(75), "1:15");
  EXPECT_EQ(clockText(3599.6), "1:00:00");
  EXPECT_EQ(clockText(3700), "1:01:40");
  EXPECT_EQ(clockText(360000), "100:00:00");
}

TEST(ConsoleText, Grouping) {
  EXPECT_EQ(groupedText(0), "0");
  EXPECT_EQ(groupedText(999), "999");
  EXPECT_EQ(groupedText(1000), "1,000");
  EXPECT_EQ(groupedText(1234567), "1,234,567");
  EXPECT_EQ(groupedText(-999), "-999");
  EXPECT_EQ(groupedText(-1234567), "-1,234,567");
}

TEST(ConsoleText, Bytes) {
  EXPECT_EQ(bytesText(0), "0 B");
  EXPECT_EQ(bytesText(999), "999 B");
  EXPECT_EQ(bytesText(1000), "1 kB");
  EXPECT_EQ(bytesText(1234), "1.23 kB");
  EXPECT_EQ(bytesText(999'600), "1 MB");
  EXPECT_EQ(bytesText(61.1e6), "61.1 MB");
  EXPECT_EQ(bytesText(3.25e9), "3.25 GB");
  EXPECT_EQ(bytesText(5e15), "5e+03 TB");
}

// A console on a temporary file.
class ConsoleTest : public testing::Test {
 protected:
  std::FILE* file() const { return file_.get(); }
  std::string written() const {
    std::string text(static_cast<std::size_t>(std::ftell(file())), '\0');
    std::rewind(file());
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file()), text.size());
    return text;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

// What a terminal shows, line by line, after carriage returns and clearing.
std::string screenOf(const std::string& text) {
  std::string screen;
  std::string line;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      screen += line + "\n";
      line.clear();
      column = 0;
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 3, "\033[K") == 0) {
      line.resize(column);
      i += 2;
    } else {
      line.resize(std::max(line.size(), column + 1));
      line[column++] = text[i];
    }
  }
  return screen + line;
}

TEST_F(ConsoleTest, TheLiveLineIsRewrittenInPlace) {
  {
    Console console(file(), true);
    console.progress(kReport);
    ProgressReport last = kReport;
    last.step = last.targetStep;  // shown though the first was shown just before
    last.secondsLeft = 0;
    last.loss = 0.25;
    console.progress(last);
  }
  EXPECT_EQ(screenOf(written()), "step 900/900  loss 0.2500  1,503 images/s  0:00 left\n");
}

TEST_F(ConsoleTest, MessagesStandAboveTheLiveLineWhole) {
  {
    Console console(file(), true);
    console.print("before");
    console.progress(kReport);
    console.print("short");
    ProgressReport last = kReport;
    last.step = last.targetStep;
    console.progress(last);
    console.endProgress();
    console.print("after");
  }
  EXPECT_EQ(screenOf(written()),
            "before\nshort\nstep 900/900  loss 0.5123  1,503 images/s  0:52 left\nafter\n");
}

TEST_F(ConsoleTest, ReportsInQuickSuccessionAreNotAllShown) {
  {
    Console console(file(), true);
    for (int i = 0; i < 1000; ++i) console.progress(kReport);
  }
  EXPECT_LT(written().size(), 1000u);
}

TEST_F(ConsoleTest, WithoutATerminalThereAreOnlyWholeLines) {
  {
    Console console(file(), false);
    console.progress(kReport);
    console.progress(kReport);  // too soon
    console.print("a message");
    ProgressReport last = kReport;
    last.step = last.targetStep;
    console.progress(last);
    console.endProgress();
  }
  EXPECT_EQ(written(),
            "step 120/900  loss 0.5123  1,503 images/s  0:52 left\na message\n"
            "step 900/900  loss 0.5123  1,503 images/s  0:52 left\n");
}

}  // namespace
}  // namespace cohort
