#include "launch/run_status.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "launch/run_end.h"
#include "launch/stall.h"
#include "train/checkpoint.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// A status is written once a second.
constexpr double kFresh = 3;
constexpr std::chrono::milliseconds kSecondLook{1500};
constexpr StallLimits kLimits{.silentSeconds = 5, .stillSeconds = 5};

double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// By clocks that may differ.
bool isFresh(const ProcessView& process) {
  return process.age > -1 && process.age < kFresh;
}

std::vector<ProcessView> look(const fs::path& directory) {
  std::vector<ProcessView> processes;
  const double now = wallSeconds();
  for (WorkerStatus& status : readStatuses(directory)) {
    const double age = now - status.written;
    processes.push_back({.status = std::move(status), .age = age});
  }
  return processes;
}

bool isSame(const WorkerStatus& a, const WorkerStatus& b) {
  return a.isServer == b.isServer && a.name == b.name;
}

// Of those that seem old or gone: one whose status changes while we look is alive, whatever its clock says.
void lookAgain(const fs::path& directory, std::vector<ProcessView>& processes) {
  const auto isSure = [](const ProcessView& process) {
    return isFresh(process) && !seemsGone(process.status);
  };
  if (std::ranges::all_of(processes, isSure)) return;
  std::this_thread::sleep_for(kSecondLook);
  std::vector<ProcessView> now = look(directory);
  for (ProcessView& process : now) {
    const auto before = std::ranges::find_if(
        processes, [&](const ProcessView& other) { return isSame(other.status, process.status); });
    const bool changes = before == processes.end() || before->status.written != process.status.written;
    process.age = changes ? 0 : std::max(0.0, process.age);
    process.isGone = !changes && seemsGone(process.status);
  }
  processes = std::move(now);
}

WorkerView viewOf(const ProcessView& process) {
  const WorkerStatus& s = process.status;
  return {.name = s.name,
          .host = s.host,
          .failure = s.failure,
          .end = process.isGone ? fmt::format("is gone (process {} has ended)", s.process) : "",
          .silentSeconds = process.age,
          .stillSeconds = s.stillSeconds,
          .mayRest = s.mayRest,
          .doing = s.doing,
          .waitsFor = s.waitsFor,
          .waitsForAnother = s.waitsForAnother,
          .step = s.step};
}

std::vector<ProcessView> workersOf(const std::vector<ProcessView>& processes) {
  std::vector<ProcessView> workers;
  std::ranges::copy_if(processes, std::back_inserter(workers),
                       [](const ProcessView& process) { return !process.status.isServer; });
  return workers;
}

// ---- a run that nobody works on

std::string goOnText(const fs::path& directory) {
  const std::vector<CheckpointFile> checkpoints = listCheckpoints(directory / "checkpoints");
  const std::string from = checkpoints.empty()
                               ? "there is no checkpoint"
                               : fmt::format("the last checkpoint is of step {}", checkpoints.back().step);
  return fmt::format("{}; go on with the same command and --job-dir {}", from, directory.string());
}

// What summary.json tells, where it is of the last checkpoint; nothing where a later process was killed.
std::optional<std::string> endText(const fs::path& directory) {
  const std::optional<RunEnd> end = readRunEnd(directory);
  if (!end) return std::nullopt;
  const std::vector<CheckpointFile> checkpoints = listCheckpoints(directory / "checkpoints");
  if (!checkpoints.empty() && checkpoints.back().step > end->step) return std::nullopt;
  if (end->isInterrupted)
    return fmt::format("the run was stopped after step {}: {}", end->step, goOnText(directory));
  return fmt::format("the run is over: {} steps; {} tells more", end->step,
                     (directory / "summary.json").string());
}

bool isUsed(const fs::path& directory) {
  return isLocked(directory / "lock") || isLocked(directory / "workers.lock");
}

std::string restText(const fs::path& directory, bool hasCenter) {
  if (isUsed(directory)) return "the run starts: no worker has said anything yet";
  if (hasCenter) return "no worker has said anything here";
  if (const std::optional<std::string> text = endText(directory)) return *text;
  std::error_code unreadable;
  if (!fs::exists(directory / "config.yaml", unreadable)) {
    throw UsageError(fmt::format(
        "no center is running in {}, and there was no run; give a run's folder, or HOST:PORT,... of servers",
        directory.string()));
  }
  return fmt::format("nobody works on this run: {}", goOnText(directory));
}

// ---- one that goes on

std::optional<std::string> stallText(const std::vector<ProcessView>& workers) {
  std::vector<WorkerView> views;
  views.reserve(workers.size());
  for (const ProcessView& worker : workers) views.push_back(viewOf(worker));
  const std::optional<Stall> stall = findStall(views, kLimits);
  return stall ? std::optional(stall->sentence) : std::nullopt;
}

std::string verdictOf(const fs::path& directory, const std::vector<ProcessView>& workers, bool hasCenter) {
  if (workers.empty()) return restText(directory, hasCenter);
  const std::optional<std::string> stall = stallText(workers);
  const bool isDead = std::ranges::all_of(workers, [](const ProcessView& worker) {
    return worker.isGone || !worker.status.failure.empty() || worker.age >= kFresh;
  });
  if (isDead && !isUsed(directory))
    return fmt::format("{}; nobody works on this run: {}", stall.value_or("all workers are silent"),
                       goOnText(directory));
  if (stall) return *stall;
  const Step step =
      std::ranges::max(workers, {}, [](const ProcessView& worker) { return worker.status.step; }).status.step;
  return workers.size() == 1 ? fmt::format("the worker goes on, after step {}", step)
                             : fmt::format("all {} workers go on, after step {}", workers.size(), step);
}

}  // namespace

std::string nameOf(const WorkerStatus& status) {
  return fmt::format("{} {} on {}", status.isServer ? "server" : "worker", status.name, status.host);
}

RunView lookAtRun(const fs::path& jobDirectory, bool hasCenter) {
  RunView run{.processes = look(jobDirectory), .verdict = ""};
  lookAgain(jobDirectory, run.processes);
  run.verdict = verdictOf(jobDirectory, workersOf(run.processes), hasCenter);
  return run;
}

}  // namespace cohort
