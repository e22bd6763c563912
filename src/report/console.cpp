#include "report/console.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLiveEvery = std::chrono::milliseconds(100);
constexpr auto kPlainEvery = std::chrono::seconds(5);

}  // namespace

std::string clockText(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string groupedText(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::ptrdiff_t start = number < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > start; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string bytesText(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string progressText(const ProgressReport& report, int width) {
  std::string text = report.targetStep > 0 ? fmt::format("step {}/{}", report.step, report.targetStep)
                                           : fmt::format("step {}", report.step);
  text += fmt::format("  loss {:.4f}", report.loss);
  const std::string more[] = {
      fmt::format("  {} images/s", report.imagesPerSecond < 100
                                       ? fmt::format("{:.1f}", report.imagesPerSecond)
                                       : groupedText(std::llround(report.imagesPerSecond))),
      report.secondsLeft >= 0 && std::isfinite(report.secondsLeft)
          ? fmt::format("  {} left", clockText(report.secondsLeft))
          : ""};
  for (const std::string& part : more) {
    if (std::ssize(text) + std::ssize(part) < width) text += part;
  }
  if (std::ssize(text) >= width) text.resize(static_cast<std::size_t>(std::max(0, width - 1)));
  return text;
}

Console::Console(std::FILE* out, bool live) : out_(out), live_(live) {}

Console::~Console() {
  endProgress();
}

int Console::width() const {
  winsize size{};
  if (ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void Console::clearLine() {
  if (lineShown_) std::fputs("\r\033[K", out_);
  lineShown_ = false;
}

void Console::progress(const ProgressReport& report) {
  const Clock::time_point now = Clock::now();
  const bool last = report.targetStep > 0 && report.step == report.targetStep;
  const bool due = lastStep_ < 0 || now - lastShown_ >= (live_ ? Clock::duration(kLiveEvery) : kPlainEvery);
  if (!due && !last) return;
  lastShown_ = now;
  lastStep_ = report.step;
  if (live_) {
    // One write: overwrite, then clear what the old line had more.
    const std::string line = fmt::format("\r{}\033[K", progressText(report, width()));
    std::fputs(line.c_str(), out_);
    lineShown_ = true;
  } else {
    std::fputs((progressText(report, 1000) + "\n").c_str(), out_);
  }
  std::fflush(out_);
}

void Console::print(const std::string& line) {
  clearLine();
  std::fputs((line + "\n").c_str(), out_);
  std::fflush(out_);
}

void Console::endProgress() {
  if (lineShown_) std::fputs("\n", out_);
  std::fflush(out_);
  lineShown_ = false;
  lastStep_ = -1;
}

}  // namespace cohort
