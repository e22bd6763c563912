#include "launch/worker_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr double kStartSeconds = 60;  // that a worker has at least until its first sign

constexpr double kOwnPause = 1;  // longer than it takes between two looks

constexpr double kRecoverySlack = 15;  // what a worker may take longer than its limit to give a server up

}  // namespace

StallLimits stallLimits(double stallSeconds, double recoverySeconds) {
  return {.silentSeconds = stallSeconds,
          .stillSeconds = std::max(stallSeconds, recoverySeconds + kRecoverySlack)};
}

void WorkerWatch::Watched::signal(int number) const {
  if (process) ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
}

WorkerWatch::WorkerWatch(std::filesystem::path fifo, const StallLimits& limits, Screen& screen)
    : fifoPath_(std::move(fifo)), limits_(limits), screen_(screen) {
  openFifo();
}

WorkerWatch::~WorkerWatch() {
  std::error_code ignored;
  std::filesystem::remove(fifoPath_, ignored);
}

void WorkerWatch::openFifo() {
  ::unlink(fifoPath_.c_str());
  if (::mkfifo(fifoPath_.c_str(), 0600) != 0) {
    throw IoError(fmt::format("cannot make {}: {}", fifoPath_.string(), systemMessage(errno)));
  }
  // Open for both, it never says that its writers are gone.
  fifo_ = Descriptor(::open(fifoPath_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fifo_) throw IoError(fmt::format("cannot open {}: {}", fifoPath_.string(), systemMessage(errno)));
}

void WorkerWatch::readSignals() {
  while (const std::optional<int> signal = signals_.next()) {
    if (stop_ && endsOnlyByInterrupts_ && *signal != SIGINT) continue;
    if (stop_) {
      killAll();
      atSecondSignal_();
      endLiveLine();
      ::_exit(128 + *signal);
    }
    stop_ = true;
  }
}

void WorkerWatch::begin(int workers, int first, int together) {
  first_ = first;
  together_ = together > 0 ? together : std::max(1, workers);
  watched_.clear();
  watched_.resize(static_cast<std::size_t>(workers));
  for (Watched& watched : watched_) watched.started = Clock::now();
  unread_.clear();
  heard_ = {};
  listened_ = Clock::now();
}

void WorkerWatch::restart(int worker) {
  Watched& watched = watched_[static_cast<std::size_t>(worker - first_)];
  watched = {};
  watched.started = Clock::now();
}

// ---- hearing

// Where this process was stopped itself, perhaps with all workers, they could not be heard.
void WorkerWatch::forgetOwnPause() {
  const Clock::time_point now = Clock::now();
  const auto pause = now - std::exchange(listened_, now);
  if (std::chrono::duration<double>(pause).count() < kOwnPause) return;
  for (Watched& watched : watched_) {
    for (Clock::time_point* time : {&watched.started, &watched.heard, &watched.moved}) *time += pause;
  }
}

void WorkerWatch::listen(std::chrono::milliseconds most) {
  forgetOwnPause();
  pollfd ready[] = {{.fd = fifo_.get(), .events = POLLIN, .revents = 0},
                    {.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
  ::poll(ready, std::size(ready), static_cast<int>(most.count()));
  forgetOwnPause();
  readSignals();
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fifo_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    unread_.append(buffer, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
      if (const auto message = parseLine(std::string_view{unread_}.substr(begin, end - begin)))
        hear(*message);
      begin = end + 1;
    }
    unread_.erase(0, begin);
  }
}

void WorkerWatch::hear(const WorkerMessage& message) {
  if (message.isServer) {
    if (message.kind == WorkerMessage::Kind::Failed) heard_.failures.push_back(message);
    return;
  }
  if (message.worker < first_ || message.worker >= first_ + count()) return;
  Watched& watched = watched_[static_cast<std::size_t>(message.worker - first_)];
  switch (message.kind) {
    case WorkerMessage::Kind::Alive:
      watched.heard = Clock::now();
      if (!watched.isKnown) {
        watched.process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, message.process, 0)));
      }
      if (!watched.isKnown || watched.last.beats != message.beats) watched.moved = watched.heard;
      watched.isKnown = true;
      watched.last = message;
      heard_.hasTrained = heard_.hasTrained || message.isTraining;
      heard_.step = std::max(heard_.step, message.step);
      break;
    case WorkerMessage::Kind::Failed:
      heard_.failures.push_back(message);
      break;
    case WorkerMessage::Kind::Finished:
      watched.finished = message.exitCode;
      if (message.worker == 0) heard_.finished = message.exitCode;
      break;
    case WorkerMessage::Kind::Progress:
      heard_.hasTrained = true;
      heard_.step = std::max(heard_.step, message.progress.step);
      show(message);
      break;
    case WorkerMessage::Kind::Text:
      show(message);
      break;
  }
}

void WorkerWatch::show(const WorkerMessage& message) {
  if (message.kind == WorkerMessage::Kind::Progress) return screen_.progress(message.progress);
  switch (message.how) {
    case WorkerMessage::How::Print:
      return screen_.print(message.text);
    case WorkerMessage::How::Detail:
      return screen_.detail(message.text);
    case WorkerMessage::How::Result:
      return screen_.result(message.text);
    case WorkerMessage::How::Warning:
      return screen_.warn(message.text);
  }
}

// ---- knowing

bool WorkerWatch::knowsAll() const {
  return std::ranges::all_of(watched_, &Watched::isKnown);
}

void WorkerWatch::killAll() const {
  for (const Watched& watched : watched_) watched.signal(SIGKILL);
}

std::optional<WorkerWatch::Stalled> WorkerWatch::stalled() const {
  for (int begin = first_; begin < first_ + count(); begin += together_) {
    if (std::optional<Stalled> stalled = stalledAmong(begin, std::min(begin + together_, first_ + count())))
      return stalled;
  }
  return std::nullopt;
}

std::optional<WorkerWatch::Stalled> WorkerWatch::stalledAmong(int begin, int end) const {
  std::vector<WorkerView> views;
  for (int i = begin; i < end; ++i) {
    const Watched& w = at(i);
    if (w.isKnown) {
      // Told are the limits, which is what was waited.
      views.push_back({.name = std::to_string(i),
                       .silentSeconds = std::min(secondsSince(w.heard), limits_.silentSeconds),
                       .stillSeconds = std::min(secondsSince(w.moved), limits_.stillSeconds),
                       .mayRest = w.last.mayRest,
                       .doing = w.last.doing,
                       .waitsFor = w.last.waitsFor,
                       .waitsForAnother = w.last.waitsForAnother,
                       .step = w.last.step});
    } else if (secondsSince(w.started) < std::max(limits_.silentSeconds, kStartSeconds)) {
      views.push_back({.name = std::to_string(i), .mayRest = true});
    } else {
      return Stalled{
          .worker = i,
          .hasStarted = false,
          .sentence = fmt::format("worker {} did not start within {:.0f} s", i, secondsSince(w.started))};
    }
  }
  const std::optional<Stall> stall = findStall(views, limits_);
  if (!stall) return std::nullopt;
  return Stalled{.worker = begin + static_cast<int>(stall->index), .sentence = stall->sentence};
}

}  // namespace cohort
