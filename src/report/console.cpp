#include "report/console.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr int kUsualWidth = 80;
constexpr int kWidthForBar = 100;
constexpr int kBarColumns = 20;

constexpr const char* kBold = "\033[1m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kPlain = "\033[0m";
// Clears from the cursor to the end of the screen. The space is for tmux: to clear from the very first place on means to
// it that the screen goes to the history, and an old live line would stay there.
constexpr const char* kClear = " \033[J";
constexpr const char* kAway = "\r \033[J\r";  // the live line

// The turns of all consoles, and whose live line is on the screen. Never destroyed: a thread may call at any time.
struct Screen {
  std::mutex mutex;
  Console* live = nullptr;
};

Screen& screen() {
  static auto* const made =
      new Screen;  // NOLINT(cppcoreguidelines-owning-memory): lives as long as the process
  return *made;
}

// A line of words (dim, where there are colours) and values.
class Line {
 public:
  Line& word(std::string_view text) { return add(text, true); }
  Line& value(std::string_view text) { return add(text, false); }
  int columns() const {
    int sum = 0;
    for (const Part& part : parts_) sum += static_cast<int>(part.text.size());
    return sum;
  }
  std::string text(bool colours) const {
    std::string all;
    for (const Part& part : parts_) {
      all += colours && part.dim ? fmt::format("{}{}{}", kDim, part.text, kPlain) : part.text;
    }
    return all;
  }
  Line& append(const Line& other) {
    parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
    return *this;
  }

 private:
  struct Part {
    std::string text;
    bool dim = false;
  };
  Line& add(std::string_view text, bool dim) {
    parts_.push_back({std::string(text), dim});
    return *this;
  }
  std::vector<Part> parts_;
};

std::string speedText(double imagesPerSecond) {
  return imagesPerSecond < 100 ? fmt::format("{:.1f}", imagesPerSecond)
                               : groupedText(std::llround(imagesPerSecond));
}

std::string lossText(double loss) {
  return std::abs(loss) < 1e5 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4g}", loss);
}

Line bar(const ProgressReport& report) {
  const double done = static_cast<double>(report.step) / static_cast<double>(report.targetStep);
  const auto full = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * kBarColumns);
  return Line().value("  [" + std::string(full, '#')).word(std::string(kBarColumns - full, '-')).value("]");
}

// What may follow step and loss, in the order in which it is shown; empty where it is unknown.
std::array<Line, 3> moreOf(const ProgressReport& report) {
  std::array<Line, 3> more;
  if (report.accuracy) more[0].word("  accuracy ").value(fmt::format("{:.4f}", *report.accuracy));
  more[1].value("  " + speedText(report.imagesPerSecond)).word(" images/s");
  if (report.secondsLeft >= 0 && std::isfinite(report.secondsLeft)) {
    more[2].value("  " + clockText(report.secondsLeft)).word(" left");
  }
  return more;
}

// Shorter than `width`.
Line progressLine(const ProgressReport& report, int width) {
  const std::string step = fmt::format("{}", report.step);
  const std::string steps = report.targetStep > 0 ? fmt::format("{}/{}", step, report.targetStep) : step;
  const std::string loss = lossText(report.loss);
  Line line = Line().word("step ").value(steps);
  if (report.virtualSeconds >= 0)
    line.value(fmt::format("  {:.3f}", report.virtualSeconds)).word(" virtual s");
  line.word("  loss ").value(loss);
  if (line.columns() >= width) {
    for (const Line& shorter :
         {Line().value(steps).word("  loss ").value(loss), Line().value(steps).value("  ").value(loss),
          Line().value(steps), Line().value(step)}) {
      if (shorter.columns() < width) return shorter;
    }
    return {};
  }
  std::array<Line, 3> more = moreOf(report);
  int columns = line.columns();
  for (const std::size_t part : {1, 2, 0}) {  // the most wanted first
    if (columns + more[part].columns() >= width) more[part] = {};
    columns += more[part].columns();
  }
  for (const Line& part : more) line.append(part);
  return line;
}

Line liveLine(const ProgressReport& report, int width) {
  Line line = progressLine(report, width);
  if (width >= kWidthForBar && report.targetStep > 0 && line.columns() + bar(report).columns() < width) {
    line.append(bar(report));
  }
  return line;
}

// Printable, and shorter than `width`.
std::string statusLine(std::string text, int width) {
  text.resize(std::min(text.size(), static_cast<std::size_t>(width) - 1));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

int widthOf(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

// In one piece, past the stream's buffer, which may be smaller; behind what others have put there.
void writeWhole(std::FILE* stream, std::string_view text) {
  std::fflush(stream);
  while (!text.empty()) {
    const ssize_t written = ::write(fileno(stream), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads any more; the run is worth more than its messages
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

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
  return liveLine(report, width).text(false);
}

std::string detailText(const ProgressReport& report) {
  std::string text;
  if (report.learningRate) text += fmt::format("  learning rate {:g}", *report.learningRate);
  const TimeShares& s = report.seconds;
  const std::pair<const char*, double> shares[] = {
      {"data", s.data},     {"forward", s.forward},       {"backward", s.backward},
      {"update", s.update}, {"checkpoint", s.checkpoint}, {"evaluation", s.evaluation}};
  double sum = 0;
  for (const auto& [name, seconds] : shares) sum += seconds;
  for (const auto& [name, seconds] : shares) {
    if (seconds > 0) text += fmt::format("  {} {:.0f}%", name, 100 * seconds / sum);
  }
  return text.empty() ? text : text.substr(2);
}

Console::Console(std::FILE* out, std::FILE* err, ConsoleOptions options)
    : out_(out), err_(err), options_(options) {}

Console::~Console() {
  Console::endProgress();
}

// Without wrapping: a terminal that has just become narrower may tell its new width a moment later.
std::string Console::liveText() const {
  const int width = widthOf(out_);
  return fmt::format("\033[?7l{}{}\033[?7h",
                     status_ ? statusLine(*status_, width) : liveLine(*last_, width).text(options_.colours),
                     kClear);
}

// The message, and the live line below it again, unless it is a status. One write where both go to the same place.
void Console::show(std::FILE* stream, const std::string& text) {
  if (!lineShown_) {
    writeWhole(stream, text + "\n");
    return;
  }
  const std::string again = status_ ? "" : liveText() + "\r";
  if (stream == out_) {
    writeWhole(out_, fmt::format("{}{}\n{}", kAway, text, again));
  } else {
    writeWhole(out_, kAway);
    writeWhole(stream, text + "\n");
    writeWhole(out_, again);
  }
  if (status_) forgetLine();
}

void Console::showProgressLine(const ProgressReport& report) {
  const std::string text = progressLine(report, std::numeric_limits<int>::max()).text(false);
  const std::string details = options_.verbosity == Verbosity::Verbose ? detailText(report) : "";
  show(out_, details.empty() ? text : text + "  " + details);
}

void Console::progress(const ProgressReport& report) {
  if (options_.verbosity == Verbosity::Quiet) return;
  const std::lock_guard lock(screen().mutex);
  const bool first = !last_;
  const bool last = report.targetStep > 0 && report.step == report.targetStep;
  last_ = report;
  status_.reset();
  if (!options_.live) {
    if (first || last || report.logPoint) showProgressLine(report);
    return;
  }
  if (report.logPoint && options_.verbosity == Verbosity::Verbose) showProgressLine(report);
  if (!lineShown_ || last || Clock::now() - drawn_ >= kRedrawEvery) draw();
}

void Console::status(const std::string& line) {
  if (options_.verbosity == Verbosity::Quiet || !options_.live) return;
  const std::lock_guard lock(screen().mutex);
  if (lineShown_ && status_ == line) return;
  status_ = line;
  draw();
}

// These three with the screen's mutex. The old line is written over before what it had more is cleared: nothing flickers.
void Console::draw() {
  writeWhole(out_, fmt::format("\r{}\r", liveText()));
  drawn_ = Clock::now();
  lineShown_ = true;
  screen().live = this;
}

void Console::forgetLine() {
  lineShown_ = false;
  status_.reset();
  screen().live = nullptr;
}

void Console::end() {
  if (!lineShown_) return;
  writeWhole(out_, status_ ? kAway : fmt::format("\r{}\n", liveText()));
  forgetLine();
}

void Console::endProgress() {
  const std::lock_guard lock(screen().mutex);
  end();
  last_.reset();
}

void Console::detail(const std::string& line) {
  if (options_.verbosity != Verbosity::Verbose) return;
  const std::lock_guard lock(screen().mutex);
  show(out_, options_.colours ? fmt::format("{}{}{}", kDim, line, kPlain) : line);
}

void Console::print(const std::string& line) {
  if (options_.verbosity == Verbosity::Quiet) return;
  const std::lock_guard lock(screen().mutex);
  show(out_, line);
}

void Console::result(const std::string& line) {
  const std::lock_guard lock(screen().mutex);
  show(out_, options_.colours ? fmt::format("{}{}{}", kBold, line, kPlain) : line);
}

void Console::warn(const std::string& what) {
  const std::lock_guard lock(screen().mutex);
  show(err_, options_.colours ? fmt::format("{}warning:{} {}", kBold, kPlain, what) : "warning: " + what);
}

void endLiveLine() noexcept {
  const std::unique_lock lock(screen().mutex, std::try_to_lock);
  if (lock.owns_lock() && screen().live != nullptr) screen().live->end();
}

}  // namespace cohort
