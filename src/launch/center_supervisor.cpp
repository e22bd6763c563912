#include "launch/center_supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/center_file.h"
#include "launch/child_process.h"
#include "launch/folders.h"
#include "launch/process_end.h"
#include "launch/supervisor_link.h"
#include "launch/worker_watch.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
constexpr double kFarewellSeconds = 30;
constexpr double kLastWordSeconds = 3;  // where no server is left to tell a worker that the run is over

// Done, or asked to stop.
bool isGood(int code) {
  return code == 0 || code == kResumeCode;
}

// Ended by a signal, and not by itself.
bool isKilled(int code) {
  return code > 128;
}

class CenterSupervisor {
 public:
  CenterSupervisor(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        job_(job),
        screen_(screen),
        watch_(job.path() / "supervisor", stallLimits(options.common.stallSeconds, options.recoverySeconds),
               screen),
        sockets_(temporaryFolder() / "cohort"),
        logs_(job.path() / "logs"),
        snapshots_(job.path() / "snapshots"),
        servers_(static_cast<std::size_t>(options.servers)),
        workers_(static_cast<std::size_t>(options.common.workers)),
        random_(options.common.chaos.value_or(0)) {
    makeFolder(logs_);
  }
  ~CenterSupervisor();
  CenterSupervisor(const CenterSupervisor&) = delete;
  CenterSupervisor& operator=(const CenterSupervisor&) = delete;

  int run();

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process{};
    std::optional<int> code{};
    bool wasAskedToStop = false;  // a server
    int fruitless = 0;            // deaths in a row between which the run made no step
    Step lastDeath = -1;
  };

  fs::path socketOf(int server) const { return sockets_.path() / fmt::format("server-{}", server); }
  std::string addressOf(int server) const { return fmt::format("unix:{}", socketOf(server).string()); }
  std::string logOf(const char* kind, int index) const {
    return (logs_ / fmt::format("{}-{}.txt", kind, index)).string();
  }
  std::vector<std::string> addresses() const;
  void removeLeftovers() const;
  void removeSnapshots() const noexcept;
  void startServer(int index);
  void startWorker(int index);
  void passOnStop();
  void lookAtWorkers();
  void lookAtServers();
  std::string causeOf(const char* kind, int index, int code);
  void workerDied(int index, int code);
  void serverDied(int index, int code);
  void countDeath(Child& child, const std::string& cause) const;
  int exitCode() const;
  void makeChaos();
  void endStalled();
  // Then the run is over for all.
  bool isAnyDone() const {
    return std::ranges::any_of(workers_,
                               [](const Child& worker) { return worker.code && isGood(*worker.code); });
  }
  bool areServersGone() const {
    return std::ranges::all_of(servers_,
                               [](const Child& server) { return server.process->exitCode().has_value(); });
  }
  bool isRunning() const {
    return std::ranges::any_of(workers_, [](const Child& worker) { return !worker.code; });
  }

  const CenterSupervisorOptions& options_;
  const JobDirectory& job_;
  Screen& screen_;
  WorkerWatch watch_;
  ScratchFolder sockets_;
  fs::path logs_;
  fs::path snapshots_;
  std::vector<Child> servers_;
  std::vector<Child> workers_;
  std::mt19937_64 random_;
  std::optional<CenterFile> file_;
  std::optional<Clock::time_point> chaosAt_;
};

// Before what its processes use goes, they do.
CenterSupervisor::~CenterSupervisor() {
  workers_.clear();
  servers_.clear();
  removeSnapshots();
}

void CenterSupervisor::removeSnapshots() const noexcept {
  std::error_code ignored;
  fs::remove_all(snapshots_, ignored);
}

std::vector<std::string> CenterSupervisor::addresses() const {
  std::vector<std::string> all(static_cast<std::size_t>(options_.servers));
  for (int i = 0; i < options_.servers; ++i) all[static_cast<std::size_t>(i)] = addressOf(i);
  return all;
}

void CenterSupervisor::startServer(int index) {
  std::error_code ignored;
  fs::remove(socketOf(index), ignored);
  Child& server = servers_[static_cast<std::size_t>(index)];
  server.code.reset();
  server.wasAskedToStop = false;
  const std::string& program = options_.common.command.front();
  server.process = std::make_unique<ChildProcess>(
      program,
      std::vector<std::string>{program, "serve", "--listen", addressOf(index), "--servers",
                               std::to_string(options_.servers), "--server-index", std::to_string(index),
                               "--job-dir", snapshots_.string(), "--snapshot-every",
                               fmt::format("{}s", options_.snapshotSeconds)},
      logOf("server", index),
      std::vector<std::string>{
          fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string())},
      SIGKILL);
}

void CenterSupervisor::startWorker(int index) {
  std::vector<std::string> words = options_.common.command;
  words.insert(words.end(), {"--join", fmt::format("{}", fmt::join(addresses(), ","))});
  Child& worker = workers_[static_cast<std::size_t>(index)];
  worker.code.reset();
  worker.process = std::make_unique<ChildProcess>(
      words.front(), words, logOf("worker", index),
      std::vector<std::string>{
          fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string()),
          fmt::format("{}={}", kWorkerVariable, index)},
      SIGKILL);
}

// A center that stops has its chief write a checkpoint first. A first server that died in between has to be asked again, but only
// when it listens: before, it does not know what to do with a signal.
void CenterSupervisor::passOnStop() {
  Child& server = servers_.front();
  std::error_code none;
  if (!watch_.isStopping() || server.wasAskedToStop || !fs::exists(socketOf(0), none)) return;
  server.process->signal(SIGTERM);
  server.wasAskedToStop = true;
}

// A sentence about one that died, with its own last words where it had some. Throws those that no other start would change: the
// user's to mend, or there from the beginning.
std::string CenterSupervisor::causeOf(const char* kind, int index, int code) {
  watch_.listen(std::chrono::milliseconds(0));
  const Step step = watch_.heard().step;
  const bool hasTrained = watch_.heard().hasTrained;
  const std::string name = fmt::format("{} {}", kind, index);
  std::string cause = fmt::format("{} {} after step {}", name, deathText(code), step);
  for (const WorkerMessage& failure : watch_.takeFailures()) {
    if (failure.exitCode == kUsageCode || !hasTrained) throwFailure(failure);
    if (nameOf(failure) == name)
      cause = fmt::format("{} failed after step {}: {}", name, step, unfinished(failure.text));
  }
  if (!hasTrained && !isKilled(code)) throw PeerError(fmt::format("{}; see {}", cause, logOf(kind, index)));
  return cause;
}

void CenterSupervisor::workerDied(int index, int code) {
  const std::string cause = causeOf("worker", index, code);
  screen_.endProgress();
  if (watch_.isStopping()) {
    screen_.warn(fmt::format(
        "{}, while the run was asked to stop; {}", cause,
        isRunning() ? "the others go on to its checkpoint"
                    : fmt::format("the same command goes on from {}", placeText(newestCheckpoint(job_)))));
    return;
  }
  countDeath(workers_[static_cast<std::size_t>(index)], cause);
  screen_.warn(
      fmt::format("{}; {}starting it again", cause, options_.common.workers > 1 ? "the others go on, " : ""));
  watch_.restart(index);
  startWorker(index);
}

void CenterSupervisor::serverDied(int index, int code) {
  const std::string cause = causeOf("server", index, code);
  countDeath(servers_[static_cast<std::size_t>(index)], cause);
  screen_.endProgress();
  screen_.warn(cause + "; starting it again");
  startServer(index);
}

void CenterSupervisor::countDeath(Child& child, const std::string& cause) const {
  const Step step = watch_.heard().step;
  child.fruitless = step > child.lastDeath ? 1 : child.fruitless + 1;
  child.lastDeath = step;
  if (child.fruitless <= options_.common.maxRestarts) return;
  throw PeerError(fmt::format("{}; given up after {} restarts without a step (--max-restarts)", cause,
                              options_.common.maxRestarts));
}

void CenterSupervisor::lookAtServers() {
  for (int i = 0; i < options_.servers; ++i) {
    Child& server = servers_[static_cast<std::size_t>(i)];
    if (server.code) continue;
    server.code = server.process->exitCode();
    if (server.code && !isGood(*server.code)) serverDied(i, *server.code);
  }
}

void CenterSupervisor::lookAtWorkers() {
  for (int i = 0; i < options_.common.workers; ++i) {
    Child& worker = workers_[static_cast<std::size_t>(i)];
    if (worker.code) continue;
    worker.code = worker.process->exitCode();
    if (worker.code && !isGood(*worker.code) && !isAnyDone()) workerDied(i, *worker.code);
  }
}

// At random moments of training, a random worker is killed or, one time in five, frozen.
void CenterSupervisor::makeChaos() {
  if (!options_.common.chaos || !watch_.heard().hasTrained) return;
  if (!chaosAt_) chaosAt_ = Clock::now() + std::chrono::milliseconds(200 + random_() % 1800);
  if (Clock::now() < *chaosAt_) return;
  chaosAt_.reset();
  const int victim = static_cast<int>(random_() % static_cast<std::uint64_t>(options_.common.workers));
  const bool freeze = random_() % 5 == 0;
  if (!watch_.isKnown(victim) || workers_[static_cast<std::size_t>(victim)].code) return;
  screen_.print(fmt::format("chaos: {} worker {}", freeze ? "freezing" : "killing", victim));
  workers_[static_cast<std::size_t>(victim)].lastDeath = -1;
  watch_.signal(victim, freeze ? SIGSTOP : SIGKILL);
}

// A worker that stands still is taken for dead.
void CenterSupervisor::endStalled() {
  const std::optional<WorkerWatch::Stalled> stalled = watch_.stalled();
  if (!stalled) return;
  Child& worker = workers_[static_cast<std::size_t>(stalled->worker)];
  watch_.restart(stalled->worker);
  if (worker.code) return;
  screen_.endProgress();
  screen_.warn(stalled->sentence);
  worker.process->signal(SIGKILL);
}

// What a supervisor of this run that was killed could not remove: snapshots (between starts of a run, its checkpoints count) and
// sockets, which its addresses name.
void CenterSupervisor::removeLeftovers() const {
  std::error_code ignored;
  removeSnapshots();
  constexpr std::string_view kUnix = "unix:";
  for (const auto& [index, address] : readCenterFiles(job_.path()).servers) {
    if (!address.starts_with(kUnix)) continue;
    const fs::path socket = address.substr(kUnix.size());
    if (!fs::is_socket(socket, ignored)) continue;
    fs::remove(socket, ignored);
    fs::remove(socket.parent_path(), ignored);  // with the last one
  }
}

// When all workers have ended, or need not be waited for.
int CenterSupervisor::exitCode() const {
  const auto anyEnded = [this](int code) {
    return std::ranges::any_of(workers_, [code](const Child& worker) { return worker.code == code; });
  };
  // Where all died after they were asked to stop, nobody ended well.
  return anyEnded(kResumeCode) || !anyEnded(0) ? kResumeCode : 0;
}

int CenterSupervisor::run() {
  removeLeftovers();
  file_.emplace(job_.path(), 0, addresses());
  watch_.atSecondSignal([this] {
    file_->remove();
    removeSnapshots();
    std::error_code ignored;
    fs::remove_all(sockets_.path(), ignored);
  });
  watch_.begin(options_.common.workers);
  for (int i = 0; i < options_.servers; ++i) startServer(i);
  for (int i = 0; i < options_.common.workers; ++i) startWorker(i);
  std::optional<Clock::time_point> farewell;
  while (isRunning()) {
    watch_.listen(kLook);
    if (watch_.isStopping() && !watch_.heard().hasTrained) return kResumeCode;
    passOnStop();
    makeChaos();
    endStalled();
    lookAtWorkers();
    if (!isAnyDone()) {
      lookAtServers();
    } else if (!farewell) {
      farewell = Clock::now();
    } else if (secondsSince(*farewell) > (areServersGone() ? kLastWordSeconds : kFarewellSeconds)) {
      break;
    }
  }
  watch_.listen(std::chrono::milliseconds(0));
  return exitCode();
}

}  // namespace

int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen) {
  return CenterSupervisor(options, job, screen).run();
}

}  // namespace cohort
