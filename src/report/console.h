// A run on the console: one live line on a terminal, rewritten in place, or plain lines at log points where the output is
// no terminal. Other messages never tear the live line: they are printed above it.
//
// The live line fits the terminal as wide as it is at the moment, in ASCII, and each redraw is one write. The cursor rests at
// its beginning: when the terminal becomes narrower than the line and wraps it, the next redraw still starts where the line
// does, and clears all of it.
//
// Thread safety: any thread may call anything. All consoles of a process take turns, as they share its terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "base/batch.h"
#include "report/records.h"

namespace cohort {

enum class Verbosity {
  Quiet,   // warnings and the result
  Normal,  // and progress and messages
  Verbose  // and details: learning rate and time shares at log points, the plan, checkpoints
};

// What the user and the terminal ask for; the caller finds out.
struct ConsoleOptions {
  bool live = false;     // rewrite one line; otherwise lines at log points
  bool colours = false;  // bold and dim
  Verbosity verbosity = Verbosity::Normal;
};

struct ProgressReport {
  Step step = 0;
  Step targetStep = 0;  // 0: unknown
  double loss = 0;
  double imagesPerSecond = 0;
  double secondsLeft = -1;  // negative: unknown
  std::optional<double> accuracy = {};
  std::optional<double> learningRate = {};
  TimeShares seconds = {};  // since the log point before
  bool logPoint = false;
  double virtualSeconds = -1;  // negative: none
};

// "step 120/900  loss 0.5123  1,503 images/s  0:52 left", shorter than `width` columns: the cursor needs one. The parts that
// have no room are left out; from 100 columns on there is a bar.
std::string progressText(const ProgressReport& report, int width);
// "learning rate 0.01  data 1%  forward 35%  backward 60%  update 4%": what is known of it.
std::string detailText(const ProgressReport& report);

// 75 -> "1:15", 3700 -> "1:01:40".
std::string clockText(double seconds);
// 1234567 -> "1,234,567".
std::string groupedText(std::int64_t number);
// 3.25e9 -> "3.25 GB".
std::string bytesText(double bytes);

// Where a run can show itself: the console, or another process that has one.
class Screen {
 public:
  virtual ~Screen() = default;
  virtual void progress(const ProgressReport& report) = 0;
  virtual void endProgress() = 0;
  virtual void detail(const std::string& line) = 0;
  virtual void print(const std::string& line) = 0;
  virtual void result(const std::string& line) = 0;
  virtual void warn(const std::string& what) = 0;
};

class Console : public Screen {
 public:
  // Warnings go to `err`, all else to `out`; both stay open.
  Console(std::FILE* out, std::FILE* err, ConsoleOptions options);
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // May be called at every step: the live line is redrawn a few times a second. Plain lines appear for the first report,
  // at log points and at the target.
  void progress(const ProgressReport& report) override;
  // The live line ends here, with the last report; later output starts below it.
  void endProgress() override;
  // A live line of other words, for what has no steps; nothing where the output is no terminal. It is cut to the width, and
  // the next message takes its place.
  void status(const std::string& line);
  bool live() const { return options_.live; }

  void detail(const std::string& line) override;  // Verbose
  void print(const std::string& line) override;   // not Quiet
  void result(const std::string& line) override;  // always
  void warn(const std::string& what) override;    // always: "warning: what"

 private:
  friend void endLiveLine() noexcept;

  std::string liveText() const;
  void show(std::FILE* stream, const std::string& text);
  void showProgressLine(const ProgressReport& report);
  void draw();
  void forgetLine();
  void end();

  std::FILE* out_;
  std::FILE* err_;
  ConsoleOptions options_;
  std::optional<ProgressReport> last_;  // since the beginning or endProgress
  std::optional<std::string> status_;   // what the live line says instead
  std::chrono::steady_clock::time_point drawn_;
  bool lineShown_ = false;
};

// Ends the live line that is on the screen, where there is one: for whoever writes to the terminal without a Console, as
// the error message before an exit. Any thread; does nothing while a console is just writing.
void endLiveLine() noexcept;

}  // namespace cohort
