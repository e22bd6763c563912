#include "launch/center_supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/child_process.h"
#include "launch/supervisor_link.h"
#include "launch/worker_watch.h"
#include "train/checkpoint.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
constexpr int kUsage = 2;
constexpr int kIo = 3;
constexpr int kResume = 75;
constexpr double kFarewellSeconds = 30;

std::string deathText(int code) {
  if (code > 128) return fmt::format("was ended by signal {} ({})", code - 128, strsignal(code - 128));
  return fmt::format("ended with code {}", code);
}

class CenterSupervisor {
 public:
  CenterSupervisor(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        job_(job),
        screen_(screen),
        watch_(job.path() / "supervisor", options.stallSeconds, screen),
        sockets_(fs::temp_directory_path() / "cohort"),
        logs_(job.path() / "logs"),
        random_(options.chaos.value_or(0)) {
    fs::create_directories(logs_);
  }

  int run();

 private:
  enum class Outcome { Done, Resume, ServerLost };

  struct Worker {
    std::unique_ptr<ChildProcess> process{};
    std::optional<int> code{};
    int fruitless = 0;  // deaths in a row in which the run made no step
    Step lastDeath = -1;
  };

  std::string addressOf(int server) const {
    return fmt::format("unix:{}", (sockets_.path() / fmt::format("server-{}", server)).string());
  }
  void startServer(int index);
  void startWorker(int index);
  Outcome runOnce();
  void passOnStop();
  void lookAtWorkers();
  void workerDied(int index, int code);
  [[noreturn]] void fail(const WorkerMessage& failure) const;
  void makeChaos();
  bool isRunning() const {
    return std::ranges::any_of(workers_, [](const Worker& worker) { return !worker.code; });
  }
  Step newestCheckpoint() const;

  const CenterSupervisorOptions& options_;
  const JobDirectory& job_;
  Screen& screen_;
  WorkerWatch watch_;
  ScratchFolder sockets_;
  fs::path logs_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<Worker> workers_;
  std::vector<WorkerMessage> lastWords_;  // by worker, where it said some
  bool stopPassed_ = false;
  std::string lost_;  // a server, and how
  std::optional<Clock::time_point> chaosAt_;
};

void CenterSupervisor::startServer(int index) {
  std::error_code ignored;
  fs::remove(sockets_.path() / fmt::format("server-{}", index), ignored);
  servers_[static_cast<std::size_t>(index)] = std::make_unique<ChildProcess>(
      options_.program,
      std::vector<std::string>{options_.program, "serve", "--listen", addressOf(index), "--servers",
                               std::to_string(options_.servers), "--server-index", std::to_string(index)},
      logs_ / fmt::format("server-{}.txt", index), std::vector<std::string>{}, SIGKILL);
}

void CenterSupervisor::startWorker(int index) {
  std::vector<std::string> addresses;
  for (int i = 0; i < options_.servers; ++i) addresses.push_back(addressOf(i));
  std::vector<std::string> words{options_.program};
  words.insert(words.end(), options_.workerCommand.begin(), options_.workerCommand.end());
  words.insert(words.end(), {"--join", fmt::format("{}", fmt::join(addresses, ","))});
  Worker& worker = workers_[static_cast<std::size_t>(index)];
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
  servers_.front()->signal(SIGTERM);
  stopPassed_ = true;
}

void CenterSupervisor::fail(const WorkerMessage& failure) const {
  if (failure.exitCode == kUsage) throw UsageError(failure.text);
  const std::string sentence = fmt::format("worker {}: {}", failure.worker, failure.text);
  if (failure.exitCode == kIo) throw IoError(sentence);
  throw PeerError(sentence);
}

void CenterSupervisor::workerDied(int index, int code) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
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
  worker.fruitless = step > worker.lastDeath ? 1 : worker.fruitless + 1;
  worker.lastDeath = step;
  if (worker.fruitless > options_.maxRestarts) {
    throw PeerError(fmt::format("{}; given up after {} restarts without a step (--max-restarts)", cause,
                                options_.maxRestarts));
  }
  if (watch_.isStopping()) return;
  screen_.endProgress();
  screen_.warn(
      fmt::format("{}; {}starting it again", cause, options_.workers > 1 ? "the others go on, " : ""));
  watch_.restart(index);
  startWorker(index);
}

void CenterSupervisor::lookAtWorkers() {
  for (int i = 0; i < options_.workers; ++i) {
    Worker& worker = workers_[static_cast<std::size_t>(i)];
    if (worker.code) continue;
    const std::optional<int> code = worker.process->exitCode();
    if (!code) continue;
    worker.code = code;
    if (*code != 0 && *code != kResume) {
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

Step CenterSupervisor::newestCheckpoint() const {
  const std::vector<CheckpointFile> files = listCheckpoints(job_.checkpoints());
  return files.empty() ? -1 : files.back().step;
}

CenterSupervisor::Outcome CenterSupervisor::runOnce() {
  watch_.begin(options_.workers);
  stopPassed_ = false;
  servers_.clear();
  workers_.clear();
  servers_.resize(static_cast<std::size_t>(options_.servers));
  workers_.resize(static_cast<std::size_t>(options_.workers));
  for (int i = 0; i < options_.servers; ++i) startServer(i);
  for (int i = 0; i < options_.workers; ++i) startWorker(i);
  std::optional<Clock::time_point> farewell;
  while (isRunning()) {
    watch_.listen(kLook);
    passOnStop();
    if (watch_.isStopping() && !watch_.heard().hasTrained) return Outcome::Resume;
    makeChaos();
    if (const auto stalled = watch_.stalled();
        stalled && !workers_[static_cast<std::size_t>(stalled->worker)].code) {
      screen_.endProgress();
      screen_.warn(stalled->sentence);
      workers_[static_cast<std::size_t>(stalled->worker)].process->signal(SIGKILL);
      watch_.restart(stalled->worker);
    }
    lookAtWorkers();
    const bool anyDone = std::ranges::any_of(
        workers_, [](const Worker& worker) { return worker.code == 0 || worker.code == kResume; });
    for (int i = 0; i < options_.servers && !anyDone; ++i) {
      const std::optional<int> code = servers_[static_cast<std::size_t>(i)]->exitCode();
      if (!code || *code == 0) continue;
      lost_ = fmt::format("server {} {} after step {}", i, deathText(*code), watch_.heard().step);
      return Outcome::ServerLost;
    }
    if (anyDone && !farewell) farewell = Clock::now();
    if (farewell && secondsSince(*farewell) > kFarewellSeconds) break;
  }
  watch_.listen(std::chrono::milliseconds(0));
  const bool isInterrupted =
      std::ranges::any_of(workers_, [](const Worker& worker) { return worker.code == kResume; });
  return isInterrupted ? Outcome::Resume : Outcome::Done;
}

int CenterSupervisor::run() {
  int fruitless = 0;
  Step before = newestCheckpoint();
  for (;;) {
    const Outcome outcome = runOnce();
    workers_.clear();  // what still runs ends
    servers_.clear();
    if (outcome != Outcome::ServerLost) return outcome == Outcome::Done ? 0 : kResume;
    screen_.endProgress();
    const Step now = newestCheckpoint();
    fruitless = now > before ? 1 : fruitless + 1;
    before = now;
    if (fruitless > options_.maxRestarts) {
      throw PeerError(fmt::format("{}; given up after {} restarts without a new checkpoint (--max-restarts)",
                                  lost_, options_.maxRestarts));
    }
    screen_.warn(fmt::format("{}; starting all again from {}", lost_,
                             now < 0 ? "the beginning" : fmt::format("the checkpoint of step {}", now)));
  }
}

}  // namespace

int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen) {
  return CenterSupervisor(options, job, screen).run();
}

}  // namespace cohort
