#include "launch/supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/child_process.h"
#include "launch/folders.h"
#include "launch/mpirun.h"
#include "launch/process_end.h"
#include "launch/supervisor_link.h"
#include "launch/worker_watch.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
// For mpirun to end after its workers have.
constexpr double kFarewellSeconds = 30;
constexpr double kStalledFarewellSeconds = 5;
constexpr double kSurvivorsWarningSeconds = 30;

// How one start of all workers ended.
struct StartEnd : WorkerWatch::Heard {
  std::string stalled{};  // a sentence, where the supervisor ended it
  int mpirunCode = 0;
  int deadWorker = -1;
  int deadSignal = 0;
  bool wasChaos = false;
};

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        job_(job),
        screen_(screen),
        mpirun_(findMpirun()),
        watch_(job.path() / "supervisor",
               {.silentSeconds = options.common.stallSeconds, .stillSeconds = options.common.stallSeconds},
               screen),
        logs_(job.path() / "logs"),
        workers_(options.common.workers),
        random_(options.common.chaos.value_or(0)) {
    makeFolder(logs_);
  }

  int run();

 private:
  StartEnd runOnce();
  void passOnStop(ChildProcess& mpirun);
  void endStalled(ChildProcess& mpirun);
  void makeChaos();
  void planChaos();
  bool waitForSurvivors();
  void endMpirun(ChildProcess& mpirun);
  std::string causeOf(const StartEnd& ending) const;

  const SupervisorOptions& options_;
  const JobDirectory& job_;
  Screen& screen_;
  fs::path mpirun_;
  WorkerWatch watch_;
  fs::path logs_;
  int workers_;
  std::mt19937_64 random_;

  // Of the present start.
  StartEnd ending_;
  bool stopPassed_ = false;
  std::optional<Clock::time_point> chaosAt_;
  Step firstCheckpoint_ = -1;                     // the newest one when it began
  std::optional<Clock::time_point> farewellEnd_;  // when mpirun must be gone
};

// ---- acting

// mpirun gives its workers no time after a SIGTERM, but passes SIGUSR1 on.
void Supervisor::passOnStop(ChildProcess& mpirun) {
  // Before the workers are there, nobody would hear it.
  if (!watch_.isStopping() || stopPassed_ || !watch_.knowsAll()) return;
  mpirun.signal(SIGUSR1);
  stopPassed_ = true;
}

void Supervisor::endStalled(ChildProcess& mpirun) {
  if (!ending_.stalled.empty()) return;
  const std::optional<WorkerWatch::Stalled> stalled = watch_.stalled();
  if (!stalled) return;
  ending_.stalled = stalled->sentence;
  watch_.killAll();
  mpirun.signal(stalled->hasStarted ? SIGTERM : SIGKILL);
}

void Supervisor::planChaos() {
  const std::uint64_t milliseconds = 200 + random_() % 2800;
  chaosAt_ = Clock::now() + std::chrono::milliseconds(milliseconds);
}

// At a random moment of training, a random worker is killed or, one time in five, frozen; but only after a new checkpoint, so
// that every run ends.
void Supervisor::makeChaos() {
  if (!options_.common.chaos || ending_.wasChaos || !watch_.heard().hasTrained || watch_.heard().finished)
    return;
  if (!chaosAt_) planChaos();
  if (Clock::now() < *chaosAt_ || newestCheckpoint(job_) <= firstCheckpoint_) return;
  const int victim = static_cast<int>(random_() % static_cast<std::uint64_t>(watch_.count()));
  const bool freeze = random_() % 5 == 0;
  if (!watch_.isKnown(victim)) return;
  ending_.wasChaos = true;
  screen_.print(fmt::format("chaos: {} worker {}", freeze ? "freezing" : "killing", victim));
  watch_.signal(victim, freeze ? SIGSTOP : SIGKILL);
}

// Of an earlier start, which may be held up by a disk. False: a signal came first.
bool Supervisor::waitForSurvivors() {
  const Clock::time_point start = Clock::now();
  bool isSaid = false;
  while (job_.hasWorkers()) {
    watch_.readSignals();
    if (watch_.isStopping()) return false;
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
  const bool isFinished = watch_.heard().finished.has_value();
  const bool isOver = !ending_.stalled.empty() || isFinished;
  if (isOver && !farewellEnd_) {
    const double seconds = isFinished ? kFarewellSeconds : kStalledFarewellSeconds;
    farewellEnd_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * seconds));
  }
  if (farewellEnd_ && Clock::now() > *farewellEnd_) mpirun.signal(SIGKILL);
}

StartEnd Supervisor::runOnce() {
  watch_.begin(workers_);
  ending_ = {};
  stopPassed_ = false;
  chaosAt_.reset();
  farewellEnd_.reset();
  firstCheckpoint_ = newestCheckpoint(job_);
  const fs::path log = logs_ / "mpirun.txt";
  std::error_code none;
  const std::uintmax_t logSize = fs::file_size(log, none);
  const std::uintmax_t logBegin = none ? 0 : logSize;
  {
    ChildProcess mpirun(mpirun_, mpirunArguments(mpirun_, workers_, options_.common.command), log,
                        {fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string())},
                        SIGKILL);
    std::optional<int> code;
    while (!(code = mpirun.exitCode())) {
      watch_.listen(kLook);
      passOnStop(mpirun);
      makeChaos();
      endStalled(mpirun);
      endMpirun(mpirun);
    }
    ending_.mpirunCode = *code;
  }
  watch_.listen(std::chrono::milliseconds(0));
  // One that was frozen while the others were ended would stay.
  watch_.killAll();
  static_cast<WorkerWatch::Heard&>(ending_) = watch_.heard();
  const MpirunDeath death = readMpirunDeath(log, logBegin);
  ending_.deadWorker = death.rank;
  ending_.deadSignal = death.signal;
  return ending_;
}

std::string Supervisor::causeOf(const StartEnd& ending) const {
  if (!ending.stalled.empty()) return ending.stalled;
  if (!ending.failures.empty()) {
    const WorkerMessage& first = ending.failures.front();
    return fmt::format("worker {} failed after step {}: {}", first.worker, ending.step,
                       unfinished(first.text));
  }
  if (ending.deadWorker >= 0 && ending.deadSignal > 0) {
    return fmt::format("worker {} {} after step {}", ending.deadWorker, deathText(128 + ending.deadSignal),
                       ending.step);
  }
  return fmt::format("a worker ended with code {} after step {}; see {}", ending.mpirunCode, ending.step,
                     (logs_ / "mpirun.txt").string());
}

int Supervisor::run() {
  int fruitless = 0;
  bool hasTrained = false;  // in any start
  Step before = newestCheckpoint(job_);
  for (;;) {
    if (!waitForSurvivors()) return kResumeCode;
    const StartEnd ending = runOnce();
    if (ending.finished && ending.failures.empty()) return *ending.finished;
    screen_.endProgress();
    hasTrained = hasTrained || ending.hasTrained;
    const std::string cause = causeOf(ending);
    // The user's to mend, or there from the beginning: another start would end the same way.
    const auto final = std::ranges::find_if(ending.failures, [&](const WorkerMessage& failure) {
      return failure.exitCode == kUsageCode || !hasTrained;
    });
    if (final != ending.failures.end()) throwFailure(*final);
    const bool wasKilled = ending.deadSignal > 0 || !ending.stalled.empty();
    if (!hasTrained && !wasKilled) throw PeerError(cause);
    const Step now = newestCheckpoint(job_);
    if (!ending.wasChaos) fruitless = now > before ? 1 : fruitless + 1;
    before = now;
    const std::string place = placeText(now);
    if (watch_.isStopping()) {
      screen_.warn(
          fmt::format("{}, while the run was asked to stop; the same command goes on from {}", cause, place));
      return kResumeCode;
    }
    if (fruitless > options_.common.maxRestarts) {
      throw PeerError(fmt::format("{}; given up after {} restarts without a new checkpoint (--max-restarts)",
                                  cause, options_.common.maxRestarts));
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
