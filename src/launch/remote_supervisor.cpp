#include "launch/remote_supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "launch/attend.h"
#include "launch/child_process.h"
#include "launch/find_program.h"
#include "launch/folders.h"
#include "launch/log_tail.h"
#include "launch/process_end.h"
#include "launch/signal_queue.h"
#include "train/checkpoint.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr int kLookMilliseconds = 50;
constexpr double kAliveSeconds = 5;          // between two signs of life for members
constexpr double kFarewellSeconds = 30;      // that members have to end once the run is over
constexpr double kEndSeconds = 2;            // that connections have to close
constexpr double kLongestPauseSeconds = 30;  // before a member is started again
constexpr int kConnectionCode = 255;         // ssh's own, for one that failed or broke

// Done, or asked to stop.
bool isGood(int code) {
  return code == 0 || code == kResumeCode;
}

// Ended by a signal, and not by itself.
bool isKilled(int code) {
  return code > 128 && code != kConnectionCode;
}

class RemoteSupervisor {
 public:
  RemoteSupervisor(const RemoteSupervision& options, Screen& screen);
  ~RemoteSupervisor() { endAll(); }
  RemoteSupervisor(const RemoteSupervisor&) = delete;
  RemoteSupervisor& operator=(const RemoteSupervisor&) = delete;

  int run();

 private:
  // What changes when the run gets somewhere.
  struct Mark {
    Step checkpoint = -1;
    std::uintmax_t recordBytes = 0;
    bool operator==(const Mark&) const = default;
  };

  struct Child {
    const PlannedMember& member;
    std::vector<std::string> command;
    fs::path log;
    std::unique_ptr<ChildProcess> process = {};
    Descriptor input = {};  // its standard input's other end
    std::optional<int> code = {};
    std::optional<Clock::time_point> restartAt = {};
    std::uintmax_t logBegin = 0;  // of this start's output
    bool wasAskedToStop = false;
    bool hasLeft = false;  // alone, as somebody on its host asked it to
    int fruitless = 0;     // deaths in a row between which the run got nowhere
    Mark lastDeath = {.checkpoint = -2};
  };

  bool is(const Child& child, Role role) const { return child.member.place.role == role; }
  static std::string nameOf(const Child& child) {
    return fmt::format("{} on {}", cohort::nameOf(child.member.place), child.member.place.host);
  }
  Mark mark() const;
  void lock();
  void start(Child& child);
  static void tell(const Child& child, std::string_view word);
  void listen();
  // Of the workers; all but the chief, whichever that is, are quiet.
  void showOutput() {
    for (LogTail& log : shown_) log.show(screen_);
  }
  void tellSigns();
  void passOnStop();
  void startDue();
  void look();
  void ended(Child& child);
  void died(Child& child, int code);
  std::string causeOf(const Child& child, int code) const;
  void countDeath(Child& child, const std::string& cause) const;
  void endAll() noexcept;
  bool haveEnded(Role role) const {
    return std::ranges::all_of(
        children_, [&](const Child& child) { return !is(child, role) || child.code.has_value(); });
  }
  bool anyWorkerEnded(auto&& how) const {
    return std::ranges::any_of(children_, [&](const Child& child) {
      return is(child, Role::Worker) && child.code && how(*child.code);
    });
  }
  // The run ended after a checkpoint, whoever asked for it.
  bool isResumable() const {
    return std::ranges::any_of(children_, [&](const Child& child) {
      return is(child, Role::Worker) && child.code == kResumeCode && !child.hasLeft;
    });
  }
  bool isOver() const;

  const RemoteSupervision& options_;
  Screen& screen_;
  SignalQueue signals_;
  fs::path program_;
  fs::path logs_;
  Descriptor lock_;
  std::vector<Child> children_;
  std::vector<LogTail> shown_;  // the workers'
  Mark begin_;
  bool stop_ = false;
  std::optional<Clock::time_point> farewell_;  // since the run is over
  Clock::time_point lastSign_ = Clock::now();
};

RemoteSupervisor::RemoteSupervisor(const RemoteSupervision& options, Screen& screen)
    : options_(options), screen_(screen), logs_(options.job / "logs") {
  const std::optional<fs::path> program = findProgram(options.plan.ssh.front());
  if (!program) {
    throw UsageError(
        fmt::format("{} is not here, which reaches the hosts; install openssh-client, or name "
                    "another program with --ssh",
                    options.plan.ssh.front()));
  }
  program_ = *program;
  // A connection may go while it is written to. Blocked, not ignored: children begin with neither.
  sigset_t broken;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigprocmask(SIG_BLOCK, &broken, nullptr);
  makeFolder(logs_);
  lock();
  begin_ = mark();
  for (std::size_t i = 0; i < options.members.size(); ++i) {
    const Member& place = options.members[i].place;
    children_.push_back({.member = options.members[i],
                         .command = remoteCommand(options.plan, options.members, i),
                         .log = logs_ / fmt::format("launch-{}-{}.txt", toText(place.role), place.index)});
  }
}

void RemoteSupervisor::lock() {
  const fs::path file = options_.job / "launch.lock";
  lock_ = tryLock(file);
  if (lock_) return;
  if (errno != EWOULDBLOCK)
    throw IoError(fmt::format("cannot lock {}: {}", file.string(), systemMessage(errno)));
  throw UsageError(fmt::format("another cohort launch runs in {}; wait for it, or take another --job-dir",
                               options_.job.string()));
}

RemoteSupervisor::Mark RemoteSupervisor::mark() const {
  const std::vector<CheckpointFile> files = listCheckpoints(options_.job / "checkpoints");
  std::error_code none;
  const std::uintmax_t bytes = fs::file_size(options_.job / "metrics.jsonl", none);
  return {.checkpoint = files.empty() ? -1 : files.back().step, .recordBytes = none ? 0 : bytes};
}

void RemoteSupervisor::start(Child& child) {
  child.code.reset();
  child.restartAt.reset();
  child.wasAskedToStop = false;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw IoError(fmt::format("cannot make a pipe: {}", systemMessage(errno)));
  const Descriptor theirs(ends[0]);
  child.input = Descriptor(ends[1]);
  ::fcntl(child.input.get(), F_SETFL, O_NONBLOCK);
  const Descriptor log(::open(child.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) throw IoError(fmt::format("cannot open {}: {}", child.log.string(), systemMessage(errno)));
  child.logBegin = fs::file_size(child.log);
  child.process = std::make_unique<ChildProcess>(
      program_, child.command, ChildStreams{.input = theirs.get(), .output = log.get(), .error = log.get()},
      std::vector<std::string>{}, SIGKILL);
}

// One that cannot hear is dead, which is noticed elsewhere.
void RemoteSupervisor::tell(const Child& child, std::string_view word) {
  if (!child.input) return;
  [[maybe_unused]] const ssize_t ignored = ::write(child.input.get(), word.data(), word.size());
}

void RemoteSupervisor::listen() {
  pollfd ready{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, kLookMilliseconds);
  while (const std::optional<int> signal = signals_.next()) {
    if (std::exchange(stop_, true)) {
      endAll();
      endLiveLine();
      ::_exit(128 + *signal);
    }
  }
}

void RemoteSupervisor::tellSigns() {
  if (secondsSince(lastSign_) < kAliveSeconds) return;
  lastSign_ = Clock::now();
  for (const Child& child : children_) tell(child, kAliveWord);
}

// The first server, or the worker that serves, has the run's checkpoint written; an evaluator then has nothing to wait for.
void RemoteSupervisor::passOnStop() {
  for (Child& child : children_) {
    const bool isDue = is(child, Role::Evaluator) ? (stop_ || isResumable()) && haveEnded(Role::Worker)
                                                  : stop_ && &child == &children_.front();
    if (!isDue || child.wasAskedToStop || child.code || child.restartAt) continue;
    tell(child, kStopWord);
    child.wasAskedToStop = true;
  }
}

void RemoteSupervisor::startDue() {
  for (Child& child : children_) {
    const bool isWanted = !farewell_ || is(child, Role::Evaluator);
    if (isWanted && child.restartAt && Clock::now() >= *child.restartAt) start(child);
  }
}

void RemoteSupervisor::look() {
  for (Child& child : children_) {
    if (child.code || child.restartAt) continue;
    child.code = child.process->exitCode();
    if (!child.code) continue;
    child.input.close();
    ended(child);
  }
}

void RemoteSupervisor::ended(Child& child) {
  const bool isLeader = &child == &children_.front();
  const int code = *child.code;
  if (!isGood(code) && (!farewell_ || is(child, Role::Evaluator))) died(child, code);
  child.hasLeft = code == kResumeCode && !stop_ && !isLeader && !haveEnded(Role::Worker);
  const bool isDone = is(child, Role::Worker) && code == 0;
  const bool endsRun = isDone || (isLeader && isGood(code)) || haveEnded(Role::Worker);
  if (!farewell_ && endsRun) farewell_ = Clock::now();
}

// A sentence about one that died, with its last words.
std::string RemoteSupervisor::causeOf(const Child& child, int code) const {
  const std::string how =
      code == kConnectionCode
          ? fmt::format("was not reached or lost ({} ended with code {})", program_.filename().string(), code)
          : deathText(code);
  const std::string words = lastLine(child.log, child.logBegin);
  return fmt::format("{} {}{}", nameOf(child), how,
                     words.empty() ? "" : fmt::format(": {}", unfinished(words)));
}

void RemoteSupervisor::died(Child& child, int code) {
  showOutput();
  const std::string cause = causeOf(child, code);
  if (stop_) {
    screen_.warn(fmt::format("{}, while the run was asked to stop", cause));
    return;
  }
  // The user's to mend, or there from the beginning: another start would end the same way.
  if (code == kUsageCode) throw UsageError(cause);
  if (mark() == begin_ && !isKilled(code)) {
    const std::string sentence = fmt::format("{}; see {}", cause, child.log.string());
    if (code == kIoCode) throw IoError(sentence);
    throw PeerError(sentence);
  }
  countDeath(child, cause);
  screen_.warn(fmt::format("{}; starting it again", cause));
  const double pause =
      std::min(kLongestPauseSeconds, static_cast<double>(1 << std::min(child.fruitless - 1, 8)));
  child.code.reset();
  child.restartAt = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * pause));
}

void RemoteSupervisor::countDeath(Child& child, const std::string& cause) const {
  const Mark now = mark();
  child.fruitless = now == child.lastDeath ? child.fruitless + 1 : 1;
  child.lastDeath = now;
  if (child.fruitless <= options_.maxRestarts) return;
  throw PeerError(
      fmt::format("{}; given up after {} restarts between which the run got nowhere (--max-restarts)", cause,
                  options_.maxRestarts));
}

bool RemoteSupervisor::isOver() const {
  const Child& leader = children_.front();
  // Nobody is left who would tell the others.
  if (stop_ && leader.code && !isGood(*leader.code)) return true;
  if (haveEnded(Role::Worker) && haveEnded(Role::Server) && haveEnded(Role::Evaluator)) return true;
  const bool isLate = farewell_ && secondsSince(*farewell_) > kFarewellSeconds;
  // The last checkpoint is evaluated for as long as it takes.
  return isLate && (stop_ || isResumable() || haveEnded(Role::Evaluator));
}

void RemoteSupervisor::endAll() noexcept {
  for (Child& child : children_) {
    tell(child, kEndWord);
    child.input.close();
  }
  const Clock::time_point begin = Clock::now();
  const auto isRunning = [](const Child& child) { return child.process && !child.process->exitCode(); };
  while (std::ranges::any_of(children_, isRunning) && secondsSince(begin) < kEndSeconds) ::usleep(10'000);
  for (Child& child : children_) child.process.reset();  // kills what is left
}

int RemoteSupervisor::run() {
  for (const Child& child : children_) {
    if (is(child, Role::Worker)) shown_.emplace_back(child.log);
  }
  for (Child& child : children_) start(child);
  while (!isOver()) {
    listen();
    tellSigns();
    passOnStop();
    startDue();
    showOutput();
    look();
  }
  showOutput();
  // Where all died after they were asked to stop, nobody ended well.
  return isResumable() || !anyWorkerEnded(isGood) ? kResumeCode : 0;
}

}  // namespace

int superviseRemote(const RemoteSupervision& options, Screen& screen) {
  return RemoteSupervisor(options, screen).run();
}

}  // namespace cohort
