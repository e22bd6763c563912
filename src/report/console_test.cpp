#include "report/console.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace cohort {
namespace {

const ProgressReport kReport{
    .step = 120, .targetStep = 900, .loss = 0.51234, .imagesPerSecond = 1502.6, .secondsLeft = 52.2};

TEST(ProgressText, ShowsWhatTheWidthHasRoomFor) {
  const std::string whole = "step 120/900  loss 0.5123  1,503 images/s  0:52 left";
  EXPECT_EQ(progressText(kReport, 200), whole + "  [##------------------]");
  EXPECT_EQ(progressText(kReport, 99), whole);
  EXPECT_EQ(progressText(kReport, 53), whole);
  EXPECT_EQ(progressText(kReport, 52), "step 120/900  loss 0.5123  1,503 images/s");
  EXPECT_EQ(progressText(kReport, 40), "step 120/900  loss 0.5123  0:52 left");
  EXPECT_EQ(progressText(kReport, 26), "step 120/900  loss 0.5123");
  EXPECT_EQ(progressText(kReport, 25), "120/900  loss 0.5123");
  EXPECT_EQ(progressText(kReport, 20), "120/900  0.5123");
  EXPECT_EQ(progressText(kReport, 15), "120/900");
  EXPECT_EQ(progressText(kReport, 7), "120");
  EXPECT_EQ(progressText(kReport, 3), "") << "a part of a number would be a wrong one";
  EXPECT_EQ(progressText(kReport, 1), "");
  EXPECT_EQ(progressText(kReport, 0), "");
}

TEST(ProgressText, KeepsHugeLossesShort) {
  EXPECT_EQ(progressText({.step = 1, .loss = 99999.5}, 30), "step 1  loss 99999.5000");
  EXPECT_EQ(progressText({.step = 1, .loss = 6.5288e29}, 30), "step 1  loss 6.529e+29");
}

TEST(ProgressText, ShowsTheAccuracyWhereItIsKnownAndHasRoom) {
  ProgressReport report = kReport;
  report.accuracy = 0.8125;
  EXPECT_EQ(progressText(report, 71),
            "step 120/900  loss 0.5123  accuracy 0.8125  1,503 images/s  0:52 left");
  EXPECT_EQ(progressText(report, 69), progressText(kReport, 69)) << "it goes first";
}

TEST(ProgressText, HasABarThatFills) {
  ProgressReport report = kReport;
  const auto bar = [&](Step step) {
    report.step = step;
    const std::string text = progressText(report, 120);
    return text.substr(text.find('['));
  };
  EXPECT_EQ(bar(0), "[--------------------]");
  EXPECT_EQ(bar(450), "[##########----------]");
  EXPECT_EQ(bar(899), "[###################-]");
  EXPECT_EQ(bar(900), "[####################]");
  EXPECT_EQ(bar(901), "[####################]");
  report.targetStep = 0;
  EXPECT_EQ(progressText(report, 120).find('['), std::string::npos);
}

TEST(DetailText, TellsTheLearningRateAndWhereTimeWent) {
  ProgressReport report = kReport;
  EXPECT_EQ(detailText(report), "");
  report.learningRate = 0.01;
  report.seconds = {.data = 0.1, .forward = 3.5, .backward = 6, .update = 0.4};
  EXPECT_EQ(detailText(report), "learning rate 0.01  data 1%  forward 35%  backward 60%  update 4%");
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

std::string readAll(std::FILE* file) {
  std::fflush(file);
  std::fseek(file, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  return text;
}

// Consoles on temporary files; as a terminal of 80 columns.
class ConsoleTest : public testing::Test {
 protected:
  static constexpr ConsoleOptions kLive{.live = true, .colours = false, .verbosity = Verbosity::Normal};

  ConsoleTest() { last_.step = last_.targetStep; }

  std::FILE* out() const { return out_.get(); }
  std::FILE* err() const { return err_.get(); }
  std::string written() const { return readAll(out()); }
  std::string warnings() const { return readAll(err()); }

  ProgressReport last_ = kReport;  // shown even just after another one

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> out_{std::tmpfile()};
  std::unique_ptr<std::FILE, Close> err_{std::tmpfile()};
};

// What a terminal shows after carriage returns, clearing and styles.
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
    } else if (text.compare(i, 3, "\033[J") == 0) {
      line.resize(column - 1);  // without the space that stands before it
      i += 2;
    } else if (text[i] == '\033') {
      i = text.find_first_of("mhl", i);  // a style, or wrapping on or off
    } else {
      line.resize(std::max(line.size(), column + 1));
      line[column++] = text[i];
    }
  }
  return screen + line;
}

const std::string kLastLine = "step 900/900  loss 0.5123  1,503 images/s  0:52 left";

TEST_F(ConsoleTest, TheLiveLineIsRewrittenInPlace) {
  {
    Console console(out(), err(), kLive);
    console.progress(kReport);
    last_.secondsLeft = -1;
    last_.loss = 0.25;
    console.progress(last_);
  }
  EXPECT_EQ(screenOf(written()), "step 900/900  loss 0.2500  1,503 images/s\n");
}

// How a live line is written.
std::string drawn(const std::string& line) {
  return "\033[?7l" + line + " \033[J\033[?7h";
}

TEST_F(ConsoleTest, TheLiveLineRestsAtItsBeginning) {
  Console console(out(), err(), kLive);
  console.progress(kReport);
  EXPECT_EQ(written(), "\r" + drawn(progressText(kReport, 80)) + "\r");
}

TEST_F(ConsoleTest, MessagesStandAboveTheLiveLineWhole) {
  {
    Console console(out(), err(), kLive);
    console.print("before");
    console.progress(kReport);
    console.print("short");
    EXPECT_EQ(screenOf(written()), "before\nshort\n" + progressText(kReport, 80))
        << "it is there again at once";
    console.progress(last_);
    console.endProgress();
    console.print("after");
  }
  EXPECT_EQ(screenOf(written()), "before\nshort\n" + kLastLine + "\nafter\n");
}

TEST_F(ConsoleTest, WarningsGoToTheErrorsAndTheLiveLineMakesRoom) {
  {
    Console console(out(), err(), kLive);
    console.progress(kReport);
    console.warn("the disk is nearly full");
    EXPECT_EQ(warnings(), "warning: the disk is nearly full\n");
    console.progress(last_);
  }
  const std::string line = drawn(progressText(kReport, 80));
  EXPECT_EQ(written(), "\r" + line + "\r" +  // shown
                           "\r \033[J\r" +   // away, for the warning
                           line + "\r" +     // and back
                           "\r" + drawn(kLastLine) + "\r" + "\r" + drawn(kLastLine) + "\n");
}

// A console and its errors in one file, as both are on a terminal.
TEST_F(ConsoleTest, WhoeverElseWritesCanEndTheLiveLineBefore) {
  endLiveLine();  // there is none
  {
    Console console(out(), out(), kLive);
    console.progress(kReport);
    endLiveLine();
    endLiveLine();
    std::fputs("cohort: another's message\n", out());
    console.progress(last_);
    console.warn("ours");
  }
  EXPECT_EQ(screenOf(written()),
            progressText(kReport, 80) + "\ncohort: another's message\nwarning: ours\n" + kLastLine + "\n");
  endLiveLine();  // the console is gone
}

TEST_F(ConsoleTest, AStatusIsALiveLineUntilAMessageTakesItsPlace) {
  {
    Console console(out(), out(), kLive);
    console.status("1 of 20 MB, and more words");
    console.status("2 of\t20 MB");
    const std::string before = written();
    EXPECT_EQ(screenOf(before), "2 of?20 MB");
    console.status("2 of\t20 MB");
    EXPECT_EQ(written(), before) << "it is there already";
    console.print("20 of 20 MB");
    EXPECT_EQ(screenOf(written()), "20 of 20 MB\n") << "it is not there again";
    console.status("unpacking");
    console.warn("slow");
    console.status("unpacking");
    EXPECT_EQ(screenOf(written()), "20 of 20 MB\nwarning: slow\nunpacking");
  }
  EXPECT_EQ(screenOf(written()), "20 of 20 MB\nwarning: slow\n") << "it goes with its console";
}

TEST_F(ConsoleTest, AStatusAndReportsTakeTurns) {
  {
    Console console(out(), err(), kLive);
    console.progress(kReport);
    console.status("reading");
    EXPECT_EQ(screenOf(written()), "reading");
    endLiveLine();
    EXPECT_EQ(screenOf(written()), "");
    console.status("reading");
    console.progress(last_);
  }
  EXPECT_EQ(screenOf(written()), kLastLine + "\n");
}

TEST_F(ConsoleTest, AStatusIsOnlyForTerminals) {
  Console(out(), err(), {}).status("reading");
  Console(out(), err(), {.live = true, .verbosity = Verbosity::Quiet}).status("reading");
  EXPECT_EQ(written(), "");
}

TEST_F(ConsoleTest, ReportsInQuickSuccessionAreNotAllShownButTheLastOneIs) {
  {
    Console console(out(), err(), kLive);
    for (int i = 0; i < 1000; ++i) {
      ProgressReport report = kReport;
      report.step = i;
      console.progress(report);
    }
  }
  EXPECT_LT(written().size(), 50'000u);
  EXPECT_EQ(screenOf(written()), "step 999/900  loss 0.5123  1,503 images/s  0:52 left\n");
}

TEST_F(ConsoleTest, WithoutATerminalThereAreLinesAtLogPoints) {
  {
    Console console(out(), err(), {});
    console.progress(kReport);  // the first: the run goes
    ProgressReport report = kReport;
    report.step = 121;
    console.progress(report);  // no log point
    report.step = 130;
    report.logPoint = true;
    console.progress(report);
    console.print("a message");
    console.progress(last_);
    console.endProgress();
  }
  EXPECT_EQ(written(),
            "step 120/900  loss 0.5123  1,503 images/s  0:52 left\n"
            "step 130/900  loss 0.5123  1,503 images/s  0:52 left\na message\n" +
                kLastLine + "\n");
}

TEST_F(ConsoleTest, QuietMeansWarningsAndTheResult) {
  for (const bool live : {true, false}) {
    Console console(out(), err(), {.live = live, .verbosity = Verbosity::Quiet});
    console.progress(last_);
    console.print("a message");
    console.detail("a detail");
    console.warn("careful");
    console.result("accuracy 1");
  }
  EXPECT_EQ(written(), "accuracy 1\naccuracy 1\n");
  EXPECT_EQ(warnings(), "warning: careful\nwarning: careful\n");
}

TEST_F(ConsoleTest, DetailsAreForTheVerbose) {
  ProgressReport report = kReport;
  report.logPoint = true;
  report.learningRate = 0.5;
  const std::string line = progressText(report, 80);
  for (const Verbosity verbosity : {Verbosity::Normal, Verbosity::Verbose}) {
    Console console(out(), err(), {.verbosity = verbosity});
    console.detail("a detail");
    console.progress(report);
  }
  EXPECT_EQ(written(), line + "\na detail\n" + line + "  learning rate 0.5\n");
}

TEST_F(ConsoleTest, OnATerminalTheVerboseKeepTheLogPoints) {
  {
    Console console(out(), err(), {.live = true, .verbosity = Verbosity::Verbose});
    console.progress(kReport);
    ProgressReport report = kReport;
    report.logPoint = true;
    report.learningRate = 0.5;
    console.progress(report);
    console.progress(last_);
  }
  EXPECT_EQ(screenOf(written()), progressText(kReport, 80) + "  learning rate 0.5\n" + kLastLine + "\n");
}

TEST_F(ConsoleTest, ColoursChangeNoTextAndAreOffWithoutBeingAsked) {
  const auto all = [&](bool colours) {
    Console console(out(), out(), {.live = true, .colours = colours, .verbosity = Verbosity::Verbose});
    console.progress(kReport);
    console.warn("careful");
    console.detail("a detail");
    console.result("accuracy 1");
    console.progress(last_);
  };
  all(false);
  const std::string plain = written();
  all(true);
  const std::string styled = written().substr(plain.size());
  EXPECT_NE(styled, plain);
  EXPECT_EQ(plain.find("\033[1m"), std::string::npos);
  EXPECT_EQ(plain.find("\033[2m"), std::string::npos);
  EXPECT_NE(styled.find("\033[1mwarning:\033[0m careful"), std::string::npos);
  EXPECT_EQ(screenOf(styled), screenOf(plain));
}

// A real terminal whose other side is the test's.
class Terminal {
 public:
  Terminal() {
    int terminal = -1;
    if (::openpty(&other_, &terminal, nullptr, nullptr, nullptr) != 0)
      throw std::runtime_error("no terminal");
    file_ = ::fdopen(terminal, "w");
  }
  ~Terminal() {
    std::fclose(file_);
    ::close(other_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::FILE* file() const { return file_; }
  void resize(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(other_, TIOCSWINSZ, &size);
  }
  // All that is there now.
  std::string read() const {
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(other_, text.data(), text.size()))));
    return text;
  }

 private:
  int other_ = -1;
  std::FILE* file_ = nullptr;
};

TEST(ConsoleOnATerminal, FollowsItsWidth) {
  const Terminal terminal;
  terminal.resize(20);
  Console console(terminal.file(), terminal.file(), {.live = true});
  console.progress(kReport);
  EXPECT_EQ(terminal.read(), "\r" + drawn("120/900  0.5123") + "\r");
  for (const unsigned short columns : {40, 1, 80, 200}) {
    terminal.resize(columns);
    console.print("x");  // the line is drawn anew below it
    EXPECT_EQ(terminal.read(), "\r \033[J\rx\r\n" + drawn(progressText(kReport, columns)) + "\r");
  }
  for (const unsigned short columns : {5, 1, 8}) {
    terminal.resize(columns);
    console.status("1234567 " + std::to_string(columns));
    EXPECT_EQ(terminal.read(), "\r" + drawn(std::string("1234567").substr(0, columns - 1U)) + "\r");
  }
}

}  // namespace
}  // namespace cohort
