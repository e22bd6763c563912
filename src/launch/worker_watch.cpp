#include "launch/worker_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr double kStartSeconds = 60;  // that a worker has at least until its first sign

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
  openSignals();
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

void WorkerWatch::openSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_) throw IoError(fmt::format("cannot listen to signals: {}", systemMessage(errno)));
}

void WorkerWatch::readSignals() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (stop_) {
      killAll();
      atSecondSignal_();
      endLiveLine();
      ::_exit(128 + static_cast<int>(signal.ssi_signo));
    }
    stop_ = true;
  }
}

void WorkerWatch::begin(int workers) {
  watched_.clear();
  watched_.resize(static_cast<std::size_t>(workers));
  for (Watched& watched : watched_) watched.started = Clock::now();
  unread_.clear();
  heard_ = {};
}

void WorkerWatch::restart(int worker) {
  Watched& watched = watched_[static_cast<std::size_t>(worker)];
  watched = {};
  watched.started = Clock::now();
}

// ---- hearing

void WorkerWatch::listen(std::chrono::milliseconds most) {
  pollfd ready[] = {{.fd = fifo_.get(), .events = POLLIN, .revents = 0},
                    {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  ::poll(ready, std::size(ready), static_cast<int>(most.count()));
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
  if (message.worker < 0 || message.worker >= count()) return;
  Watched& watched = watched_[static_cast<std::size_t>(message.worker)];
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

// "; worker 0, worker 2 wait for it", or nothing.
std::string WorkerWatch::waitingFor(int worker) const {
  std::vector<std::string> waiting;
  for (int other = 0; other < count(); ++other) {
    if (other != worker && !at(other).last.waitsFor.empty())
      waiting.push_back(fmt::format("worker {}", other));
  }
  if (waiting.empty()) return "";
  return fmt::format("; {} {} for it", fmt::join(waiting, ", "), waiting.size() == 1 ? "waits" : "wait");
}

std::optional<WorkerWatch::Stalled> WorkerWatch::stalled() const {
  for (int i = 0; i < count(); ++i) {
    const Watched& w = at(i);
    if (!w.isKnown) {
      if (secondsSince(w.started) < std::max(limits_.silentSeconds, kStartSeconds)) continue;
      return Stalled{
          .worker = i,
          .hasStarted = false,
          .sentence = fmt::format("worker {} did not start within {:.0f} s", i, secondsSince(w.started))};
    }
    const bool isSilent = secondsSince(w.heard) > limits_.silentSeconds;
    const bool isStill =
        !w.last.mayRest && w.last.waitsFor.empty() && secondsSince(w.moved) > limits_.stillSeconds;
    if (!isSilent && !isStill) continue;
    return Stalled{.worker = i,
                   .sentence = fmt::format("worker {} {} for {:g} s: it was {} after step {}{}", i,
                                           isSilent ? "gave no sign of life" : "did not move",
                                           isSilent ? limits_.silentSeconds : limits_.stillSeconds,
                                           w.last.doing, w.last.step, waitingFor(i))};
  }
  return std::nullopt;
}

}  // namespace cohort
