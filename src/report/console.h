// A run on the console: one live line on a terminal, rewritten in place, or plain lines now and then where the output is
// no terminal. Other messages never tear the live line: they are printed above it.
//
// Used by one thread.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "base/batch.h"

namespace cohort {

struct ProgressReport {
  Step step = 0;
  Step targetStep = 0;  // 0: unknown
  double loss = 0;
  double imagesPerSecond = 0;
  double secondsLeft = -1;  // negative: unknown
};

// "step 120/900  loss 0.5123  1,503 images/s  0:52 left", shorter than `width` columns: the cursor needs one.
std::string progressText(const ProgressReport& report, int width);

// 75 -> "1:15", 3700 -> "1:01:40".
std::string clockText(double seconds);
// 1234567 -> "1,234,567".
std::string groupedText(std::int64_t number);
// 3.25e9 -> "3.25 GB".
std::string bytesText(double bytes);

class Console {
 public:
  // `live`: rewrite one line; otherwise a line every few seconds. `out` stays open.
  Console(std::FILE* out, bool live);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void progress(const ProgressReport& report);
  void print(const std::string& line);
  // The live line ends here; later output starts below it.
  void endProgress();

 private:
  int width() const;
  void clearLine();

  std::FILE* out_;
  bool live_;
  bool lineShown_ = false;
  std::chrono::steady_clock::time_point lastShown_;
  Step lastStep_ = -1;
};

}  // namespace cohort
