#include "launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "launch/child_process.h"
#include "launch/supervisor_link.h"
#include "launch/worker_message.h"
#include "train/checkpoint.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
constexpr double kStartSeconds = 60;  // that a worker has at least until its first sign
constexpr int kUsage = 2;
constexpr int kIo = 3;
constexpr int kResume = 75;
// For mpirun to end after its workers have.
constexpr double kFarewellSeconds = 30;
constexpr double kStalledFarewellSeconds = 5;
constexpr double kSurvivorsWarningSeconds = 30;

fs::path findProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::size_t colon = rest.find(':');
    fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  throw UsageError(
      fmt::format("{} is not installed, which starts the workers; install the package openmpi-bin", name));
}

// What is known of a worker.
struct Watched {
  WorkerMessage last;
  Descriptor process;       // a number alone could be another process's by now
  Clock::time_point heard;  // of it at all
  Clock::time_point moved;  // its beats went up
  bool isKnown = false;

  void signal(int number) const {
    if (process) ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
  }
};

// How one start of all workers ended.
struct Ending {
  std::optional<int> finished;  // the exit code that the first worker named
  std::vector<WorkerMessage> failures;
  std::string stalled;  // a sentence, where the supervisor ended it
  int mpirunCode = 0;
  int deadWorker = -1;
  int deadSignal = 0;
  bool wasChaos = false;
  bool hasTrained = false;
  Step step = 0;  // the last one heard of
};

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        job_(job),
        screen_(screen),
        mpirun_(findProgram("mpirun")),
        fifoPath_(job.path() / "supervisor"),
        logs_(job.path() / "logs"),
        workers_(options.workers),
        random_(options.chaos.value_or(0)) {
    fs::create_directories(logs_);
    openSignals();
    openFifo();
  }
  ~Supervisor() {
    std::error_code ignored;
    fs::remove(fifoPath_, ignored);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run();

 private:
  void openFifo();
  void openSignals();
  void readSignals();
  std::vector<std::string> mpirunArguments() const;
  Ending runOnce();
  void listen();
  void hear(const WorkerMessage& message);
  void show(const WorkerMessage& message);
  void passOnStop(ChildProcess& mpirun);
  void endStalled(ChildProcess& mpirun);
  void makeChaos();
  void planChaos();
  bool waitForSurvivors();
  void endMpirun(ChildProcess& mpirun);
  void killWorkers() const;
  void readDeath(std::uintmax_t logBegin);
  std::string causeOf(const Ending& ending) const;
  Step newestCheckpoint() const;

  const SupervisorOptions& options_;
  const JobDirectory& job_;
  Screen& screen_;
  fs::path mpirun_;
  fs::path fifoPath_;
  fs::path logs_;
  Descriptor fifo_;
  Descriptor signals_;
  bool stop_ = false;
  int workers_;
  std::mt19937_64 random_;

  // Of the present start.
  std::vector<Watched> watched_;
  Ending ending_;
  Clock::time_point started_;
  std::string unread_;  // the begin of a line
  bool stopPassed_ = false;
  std::optional<Clock::time_point> chaosAt_;
  Step firstCheckpoint_ = -1;                     // the newest one when it began
  std::optional<Clock::time_point> farewellEnd_;  // when mpirun must be gone
};

void Supervisor::openFifo() {
  ::unlink(fifoPath_.c_str());
  if (::mkfifo(fifoPath_.c_str(), 0600) != 0) {
    throw IoError(fmt::format("cannot make {}: {}", fifoPath_.string(), systemMessage(errno)));
  }
  // Open for both, it never says that its writers are gone.
  fifo_ = Descriptor(::open(fifoPath_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fifo_) throw IoError(fmt::format("cannot open {}: {}", fifoPath_.string(), systemMessage(errno)));
}

void Supervisor::openSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_) throw IoError(fmt::format("cannot listen to signals: {}", systemMessage(errno)));
}

void Supervisor::readSignals() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (stop_) {
      killWorkers();
      endLiveLine();
      ::_exit(128 + static_cast<int>(signal.ssi_signo));
    }
    stop_ = true;
  }
}

std::vector<std::string> Supervisor::mpirunArguments() const {
  std::vector<std::string> arguments = {
      mpirun_.string(), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
      // A process that waits inside MPI gives its core away; lanes pin themselves.
      "--mca", "mpi_yield_when_idle", "1",
      // When one worker dies, the others need no time to say farewell: the last checkpoint counts.
      "--mca", "odls_base_sigkill_timeout", "0", "-np", std::to_string(workers_)};
  arguments.insert(arguments.end(), options_.command.begin(), options_.command.end());
  return arguments;
}

// ---- hearing

void Supervisor::listen() {
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

void Supervisor::hear(const WorkerMessage& message) {
  if (message.worker < 0 || message.worker >= static_cast<int>(watched_.size())) return;
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
      ending_.hasTrained = ending_.hasTrained || message.isTraining;
      ending_.step = std::max(ending_.step, message.step);
      break;
    case WorkerMessage::Kind::Failed:
      ending_.failures.push_back(message);
      break;
    case WorkerMessage::Kind::Finished:
      if (message.worker == 0) ending_.finished = message.exitCode;
      break;
    case WorkerMessage::Kind::Progress:
      ending_.hasTrained = true;
      ending_.step = std::max(ending_.step, message.progress.step);
      show(message);
      break;
    case WorkerMessage::Kind::Text:
      show(message);
      break;
  }
}

void Supervisor::show(const WorkerMessage& message) {
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

// ---- acting

// mpirun gives its workers no time after a SIGTERM, but passes SIGUSR1 on.
void Supervisor::passOnStop(ChildProcess& mpirun) {
  if (!stop_ || stopPassed_) return;
  // Before the workers are there, nobody would hear it.
  const bool allThere = std::ranges::all_of(watched_, [](const Watched& w) { return w.isKnown; });
  if (!allThere) return;
  mpirun.signal(SIGUSR1);
  stopPassed_ = true;
}

void Supervisor::killWorkers() const {
  for (const Watched& watched : watched_) watched.signal(SIGKILL);
}

// A worker that gives no sign of life, or does not move though it waits for nobody.
void Supervisor::endStalled(ChildProcess& mpirun) {
  if (!ending_.stalled.empty()) return;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const Watched& w = watched_[i];
    if (!w.isKnown) {
      if (secondsSince(started_) < std::max(options_.stallSeconds, kStartSeconds)) continue;
      ending_.stalled = fmt::format("worker {} did not start within {:.0f} s", i, secondsSince(started_));
      killWorkers();
      mpirun.signal(SIGKILL);
      return;
    }
    const bool isSilent = secondsSince(w.heard) > options_.stallSeconds;
    const bool isStill =
        !w.last.mayRest && w.last.waitsFor.empty() && secondsSince(w.moved) > options_.stallSeconds;
    if (!isSilent && !isStill) continue;
    std::vector<std::string> waiting;
    for (std::size_t other = 0; other < watched_.size(); ++other) {
      if (other != i && !watched_[other].last.waitsFor.empty())
        waiting.push_back(fmt::format("worker {}", other));
    }
    ending_.stalled = fmt::format("worker {} {} for {:g} s: it was {} after step {}{}", i,
                                  isSilent ? "gave no sign of life" : "did not move", options_.stallSeconds,
                                  w.last.doing, w.last.step,
                                  waiting.empty() ? ""
                                                  : fmt::format("; {} {} for it", fmt::join(waiting, ", "),
                                                                waiting.size() == 1 ? "waits" : "wait"));
    killWorkers();
    mpirun.signal(SIGTERM);
    return;
  }
}

void Supervisor::planChaos() {
  const std::uint64_t milliseconds = 200 + random_() % 2800;
  chaosAt_ = Clock::now() + std::chrono::milliseconds(milliseconds);
}

// At a random moment of training, a random worker is killed or, one time in five, frozen; but only after a new checkpoint, so
// that every run ends.
void Supervisor::makeChaos() {
  if (!options_.chaos || ending_.wasChaos || !ending_.hasTrained || ending_.finished) return;
  if (!chaosAt_) planChaos();
  if (Clock::now() < *chaosAt_ || newestCheckpoint() <= firstCheckpoint_) return;
  const std::size_t victim = random_() % watched_.size();
  const bool freeze = random_() % 5 == 0;
  if (!watched_[victim].isKnown) return;
  ending_.wasChaos = true;
  screen_.print(fmt::format("chaos: {} worker {}", freeze ? "freezing" : "killing", victim));
  watched_[victim].signal(freeze ? SIGSTOP : SIGKILL);
}

// mpirun says which worker ended, and how.
void Supervisor::readDeath(std::uintmax_t logBegin) {
  std::string log = readWholeFile(logs_ / "mpirun.txt");
  log.erase(0, std::min<std::size_t>(log.size(), logBegin));
  constexpr std::string_view kRank = "process rank ";
  constexpr std::string_view kSignal = "exited on signal ";
  const auto numberAfter = [&](std::string_view words, std::size_t from) {
    const std::size_t at = log.find(words, from);
    int number = -1;
    if (at != std::string::npos) {
      std::from_chars(log.data() + at + words.size(), log.data() + log.size(), number);
    }
    return number;
  };
  ending_.deadWorker = numberAfter(kRank, 0);
  ending_.deadSignal = std::max(0, numberAfter(kSignal, 0));
}

// Of an earlier start, which may be held up by a disk. False: a signal came first.
bool Supervisor::waitForSurvivors() {
  const Clock::time_point start = Clock::now();
  bool isSaid = false;
  while (job_.hasWorkers()) {
    readSignals();
    if (stop_) return false;
    if (!isSaid && secondsSince(start) > kSurvivorsWarningSeconds) {
      screen_.warn("workers of an earlier start are still ending; waiting for them");
      isSaid = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  job_.removeLeftovers();
  return true;
}

// mpirun itself may hang, or be stopped.
void Supervisor::endMpirun(ChildProcess& mpirun) {
  const bool isOver = !ending_.stalled.empty() || ending_.finished;
  if (isOver && !farewellEnd_) {
    const double seconds = ending_.finished ? kFarewellSeconds : kStalledFarewellSeconds;
    farewellEnd_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * seconds));
  }
  if (farewellEnd_ && Clock::now() > *farewellEnd_) mpirun.signal(SIGKILL);
}

Ending Supervisor::runOnce() {
  watched_.clear();
  watched_.resize(static_cast<std::size_t>(workers_));
  ending_ = {};
  started_ = Clock::now();
  unread_.clear();
  stopPassed_ = false;
  chaosAt_.reset();
  farewellEnd_.reset();
  firstCheckpoint_ = newestCheckpoint();
  const fs::path log = logs_ / "mpirun.txt";
  std::error_code none;
  const std::uintmax_t logSize = fs::file_size(log, none);
  const std::uintmax_t logBegin = none ? 0 : logSize;
  {
    ChildProcess mpirun(mpirun_, mpirunArguments(), log,
                        {fmt::format("{}={}", kSupervisorVariable, fs::absolute(fifoPath_).string())},
                        SIGKILL);
    std::optional<int> code;
    while (!(code = mpirun.exitCode())) {
      pollfd ready[] = {{.fd = fifo_.get(), .events = POLLIN, .revents = 0},
                        {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
      ::poll(ready, std::size(ready), static_cast<int>(kLook.count()));
      readSignals();
      listen();
      passOnStop(mpirun);
      makeChaos();
      endStalled(mpirun);
      endMpirun(mpirun);
    }
    ending_.mpirunCode = *code;
  }
  listen();
  // One that was frozen while the others were ended would stay.
  killWorkers();
  readDeath(logBegin);
  return ending_;
}

Step Supervisor::newestCheckpoint() const {
  const std::vector<CheckpointFile> files = listCheckpoints(job_.checkpoints());
  return files.empty() ? -1 : files.back().step;
}

std::string Supervisor::causeOf(const Ending& ending) const {
  if (!ending.stalled.empty()) return ending.stalled;
  if (!ending.failures.empty()) {
    const WorkerMessage& first = ending.failures.front();
    std::string_view text = first.text;
    if (text.ends_with('.')) text.remove_suffix(1);  // the sentence goes on
    return fmt::format("worker {} failed after step {}: {}", first.worker, ending.step, text);
  }
  if (ending.deadWorker >= 0 && ending.deadSignal > 0) {
    return fmt::format("worker {} was ended by signal {} ({}) after step {}", ending.deadWorker,
                       ending.deadSignal, strsignal(ending.deadSignal), ending.step);
  }
  return fmt::format("a worker ended with code {} after step {}; see {}", ending.mpirunCode, ending.step,
                     (logs_ / "mpirun.txt").string());
}

int Supervisor::run() {
  int fruitless = 0;
  bool hasTrained = false;  // in any start
  Step before = newestCheckpoint();
  for (;;) {
    if (!waitForSurvivors()) return kResume;
    const Ending ending = runOnce();
    if (ending.finished && ending.failures.empty()) return *ending.finished;
    screen_.endProgress();
    hasTrained = hasTrained || ending.hasTrained;
    const std::string cause = causeOf(ending);
    // The user's to mend, or there from the beginning: another start would end the same way.
    const auto final = std::ranges::find_if(ending.failures, [&](const WorkerMessage& failure) {
      return failure.exitCode == kUsage || !hasTrained;
    });
    if (final != ending.failures.end()) {
      if (final->exitCode == kUsage) throw UsageError(final->text);
      const std::string sentence = fmt::format("worker {}: {}", final->worker, final->text);
      if (final->exitCode == kIo) throw IoError(sentence);
      throw PeerError(sentence);
    }
    const bool wasKilled = ending.deadSignal > 0 || !ending.stalled.empty();
    if (!hasTrained && !wasKilled) throw PeerError(cause);
    const Step now = newestCheckpoint();
    if (!ending.wasChaos) fruitless = now > before ? 1 : fruitless + 1;
    before = now;
    const std::string place = now < 0 ? "the beginning" : fmt::format("the checkpoint of step {}", now);
    if (stop_) {
      screen_.warn(
          fmt::format("{}, while the run was asked to stop; the same command goes on from {}", cause, place));
      return kResume;
    }
    if (fruitless > options_.maxRestarts) {
      throw PeerError(fmt::format("{}; given up after {} restarts without a new checkpoint (--max-restarts)",
                                  cause, options_.maxRestarts));
    }
    if (options_.fewer) workers_ = options_.fewer(workers_);
    screen_.warn(fmt::format("{}; starting {} worker{} again from {}", cause, workers_,
                             workers_ == 1 ? "" : "s", place));
  }
}

}  // namespace

int supervise(const SupervisorOptions& options, const JobDirectory& job, Screen& screen) {
  return Supervisor(options, job, screen).run();
}

}  // namespace cohort
