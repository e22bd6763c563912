#include "launch/center_supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/child_process.h"
#include "launch/supervisor_link.h"
#include "launch/worker_watch.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
constexpr int kUsage = 2;
constexpr int kIo = 3;
constexpr int kResume = 75;
constexpr double kFarewellSeconds = 30;
constexpr double kLastWordSeconds = 3;  // where no server is left to tell a worker that the run is over

std::string deathText(int code) {
  if (code > 128) return fmt::format("was ended by signal {} ({})", code - 128, strsignal(code - 128));
  return fmt::format("ended with code {}", code);
}

// Done, or asked to stop.
bool isGood(int code) {
  return code == 0 || code == kResume;
}

class CenterSupervisor {
 public:
  CenterSupervisor(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        screen_(screen),
        watch_(job.path() / "supervisor", options.stallSeconds, screen),
        sockets_(fs::temp_directory_path() / "cohort"),
        logs_(job.path() / "logs"),
        snapshots_(job.path() / "snapshots"),
        addressesFile_(job.path() / kCenterFile),
        random_(options.chaos.value_or(0)) {
    fs::create_directories(logs_);
  }

  int run();

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process{};
    std::optional<int> code{};
    int fruitless = 0;  // deaths in a row between which the run made no step
    Step lastDeath = -1;
  };

  std::string addressOf(int server) const {
    return fmt::format("unix:{}", (sockets_.path() / fmt::format("server-{}", server)).string());
  }
  std::vector<std::string> addresses() const;
  void writeAddresses() const;
  void removeLeftovers() const;
  void startServer(int index);
  void startWorker(int index);
  void passOnStop();
  void lookAtWorkers();
  void lookAtServers();
  void workerDied(int index, int code);
  void countDeath(Child& child, const std::string& cause) const;
  [[noreturn]] void fail(const WorkerMessage& failure) const;
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
  Screen& screen_;
  WorkerWatch watch_;
  ScratchFolder sockets_;
  fs::path logs_;
  fs::path snapshots_;
  fs::path addressesFile_;
  std::mt19937_64 random_;
  std::vector<Child> servers_;
  std::vector<Child> workers_;
  bool stopPassed_ = false;
  std::optional<Clock::time_point> chaosAt_;
};

std::vector<std::string> CenterSupervisor::addresses() const {
  std::vector<std::string> all(static_cast<std::size_t>(options_.servers));
  for (int i = 0; i < options_.servers; ++i) all[static_cast<std::size_t>(i)] = addressOf(i);
  return all;
}

// For those who want to know how the run is.
void CenterSupervisor::writeAddresses() const {
  writeWholeFile(addressesFile_, fmt::format("{}\n", fmt::join(addresses(), ",")));
}

void CenterSupervisor::startServer(int index) {
  std::error_code ignored;
  fs::remove(sockets_.path() / fmt::format("server-{}", index), ignored);
  Child& server = servers_[static_cast<std::size_t>(index)];
  server.process = std::make_unique<ChildProcess>(
      options_.program,
      std::vector<std::string>{options_.program, "serve", "--listen", addressOf(index), "--servers",
                               std::to_string(options_.servers), "--server-index", std::to_string(index),
                               "--job-dir", snapshots_.string(), "--snapshot-every",
                               fmt::format("{}s", options_.snapshotSeconds)},
      logs_ / fmt::format("server-{}.txt", index),
      std::vector<std::string>{
          fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string())},
      SIGKILL);
}

void CenterSupervisor::startWorker(int index) {
  std::vector<std::string> words{options_.program};
  words.insert(words.end(), options_.workerCommand.begin(), options_.workerCommand.end());
  words.insert(words.end(), {"--join", fmt::format("{}", fmt::join(addresses(), ","))});
  Child& worker = workers_[static_cast<std::size_t>(index)];
  worker.code.reset();
  worker.process = std::make_unique<ChildProcess>(
      options_.program, words, logs_ / fmt::format("worker-{}.txt", index),
      std::vector<std::string>{
          fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string()),
          fmt::format("{}={}", kWorkerVariable, index)},
      SIGKILL);
}

// A center that stops has its chief write a checkpoint first.
void CenterSupervisor::passOnStop() {
  if (!watch_.isStopping() || stopPassed_ || !watch_.heard().hasTrained) return;
  servers_.front().process->signal(SIGTERM);
  stopPassed_ = true;
}

void CenterSupervisor::fail(const WorkerMessage& failure) const {
  if (failure.exitCode == kUsage) throw UsageError(failure.text);
  const std::string sentence = fmt::format("worker {}: {}", failure.worker, failure.text);
  if (failure.exitCode == kIo) throw IoError(sentence);
  throw PeerError(sentence);
}

void CenterSupervisor::workerDied(int index, int code) {
  Child& worker = workers_[static_cast<std::size_t>(index)];
  const Step step = watch_.heard().step;
  std::string cause = fmt::format("worker {} {} after step {}", index, deathText(code), step);
  for (const WorkerMessage& failure : watch_.takeFailures()) {
    // The user's to mend, or there from the beginning: another start would end the same way.
    if (failure.exitCode == kUsage || !watch_.heard().hasTrained) fail(failure);
    if (failure.worker == index)
      cause = fmt::format("worker {} failed after step {}: {}", index, step, failure.text);
  }
  if (!watch_.heard().hasTrained && code <= 128) {
    throw PeerError(fmt::format("{}; see {}", cause, (logs_ / fmt::format("worker-{}.txt", index)).string()));
  }
  countDeath(worker, cause);
  if (watch_.isStopping()) return;
  screen_.endProgress();
  screen_.warn(
      fmt::format("{}; {}starting it again", cause, options_.workers > 1 ? "the others go on, " : ""));
  watch_.restart(index);
  startWorker(index);
}

void CenterSupervisor::countDeath(Child& child, const std::string& cause) const {
  const Step step = watch_.heard().step;
  child.fruitless = step > child.lastDeath ? 1 : child.fruitless + 1;
  child.lastDeath = step;
  if (child.fruitless <= options_.maxRestarts) return;
  throw PeerError(fmt::format("{}; given up after {} restarts without a step (--max-restarts)", cause,
                              options_.maxRestarts));
}

void CenterSupervisor::lookAtServers() {
  for (int i = 0; i < options_.servers; ++i) {
    Child& server = servers_[static_cast<std::size_t>(i)];
    if (server.code) continue;
    server.code = server.process->exitCode();
    if (!server.code || isGood(*server.code)) continue;
    const std::string cause =
        fmt::format("server {} {} after step {}", i, deathText(*server.code), watch_.heard().step);
    if (!watch_.heard().hasTrained && *server.code <= 128) {
      throw PeerError(fmt::format("{}; see {}", cause, (logs_ / fmt::format("server-{}.txt", i)).string()));
    }
    countDeath(server, cause);
    screen_.endProgress();
    screen_.warn(cause + "; starting it again");
    server.code.reset();
    startServer(i);
  }
}

void CenterSupervisor::lookAtWorkers() {
  for (int i = 0; i < options_.workers; ++i) {
    Child& worker = workers_[static_cast<std::size_t>(i)];
    if (worker.code) continue;
    const std::optional<int> code = worker.process->exitCode();
    if (!code) continue;
    worker.code = code;
    if (!isGood(*code) && !isAnyDone()) {
      watch_.listen(std::chrono::milliseconds(0));  // its last words
      workerDied(i, *code);
    }
  }
}

// At random moments of training, a random worker is killed or, one time in five, frozen.
void CenterSupervisor::makeChaos() {
  if (!options_.chaos || !watch_.heard().hasTrained) return;
  if (!chaosAt_) chaosAt_ = Clock::now() + std::chrono::milliseconds(200 + random_() % 1800);
  if (Clock::now() < *chaosAt_) return;
  chaosAt_.reset();
  const int victim = static_cast<int>(random_() % static_cast<std::uint64_t>(options_.workers));
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
  fs::remove_all(snapshots_, ignored);
  if (!fs::exists(addressesFile_, ignored)) return;
  std::istringstream text(readWholeFile(addressesFile_));
  constexpr std::string_view kUnix = "unix:";
  for (std::string address; std::getline(text >> std::ws, address, ',');) {
    if (!address.starts_with(kUnix)) continue;
    if (address.ends_with('\n')) address.pop_back();
    const fs::path socket = address.substr(kUnix.size());
    if (!fs::is_socket(socket, ignored)) continue;
    fs::remove(socket, ignored);
    fs::remove(socket.parent_path(), ignored);  // with the last one
  }
  fs::remove(addressesFile_, ignored);
}

int CenterSupervisor::run() {
  removeLeftovers();
  watch_.begin(options_.workers);
  servers_.resize(static_cast<std::size_t>(options_.servers));
  workers_.resize(static_cast<std::size_t>(options_.workers));
  for (int i = 0; i < options_.servers; ++i) startServer(i);
  for (int i = 0; i < options_.workers; ++i) startWorker(i);
  writeAddresses();
  std::optional<Clock::time_point> farewell;
  while (isRunning()) {
    watch_.listen(kLook);
    passOnStop();
    if (watch_.isStopping() && !watch_.heard().hasTrained) return kResume;
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
  const bool isInterrupted =
      std::ranges::any_of(workers_, [](const Child& worker) { return worker.code == kResume; });
  std::error_code ignored;
  fs::remove_all(snapshots_, ignored);
  fs::remove(addressesFile_, ignored);
  return isInterrupted ? kResume : 0;
}

}  // namespace

int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen) {
  return CenterSupervisor(options, job, screen).run();
}

}  // namespace cohort
