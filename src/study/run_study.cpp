#include "study/run_study.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "launch/child_process.h"
#include "study/results.h"
#include "study/study_report.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCommandMark = "$ ";      // begins the line of output.txt that names the command
constexpr std::string_view kErrorMark = "cohort: ";  // begins its errors
constexpr auto kPollEvery = std::chrono::milliseconds(50);

std::string machineText(const std::string& version) {
  return fmt::format("{}, {} cores, cohort {}", hostName(), std::thread::hardware_concurrency(), version);
}

// How long a run takes in all, from how its progress lines come. A resumed run does not begin at 0.
class LengthEstimate {
 public:
  // Negative: unknown.
  double seconds(double share, double now) {
    if (share <= 0) return -1;
    if (firstShare_ < 0) {
      firstShare_ = share;
      firstTime_ = now;
    }
    if (share <= lastShare_) return estimate_;
    lastShare_ = share;
    if (share > firstShare_) estimate_ = now + (1 - share) * (now - firstTime_) / (share - firstShare_);
    return estimate_;
  }

 private:
  double firstShare_ = -1;
  double firstTime_ = 0;
  double lastShare_ = 0;
  double estimate_ = -1;
};

class Runner {
 public:
  Runner(const Study& study, const StudyDirectory& directory, const NetworkRegistry& networks,
         const StudyOptions& options, const StopFlag& stop, StudyObserver& observer)
      : study_(study),
        directory_(directory),
        networks_(networks),
        options_(options),
        stop_(stop),
        observer_(observer) {
    for (const StudyRun& run : study.runs)
      records_.push_back(readRecord(study, run, directory.run(run), networks));
  }

  StudyOutcome runAll();

 private:
  void runOne(std::size_t index);
  bool waitForLock(const fs::path& job);
  int runProcess(RunRecord& record, const fs::path& job, StudyObserver::Progress& progress);
  double secondsLeft(double whole, double now) const;

  const Study& study_;
  const StudyDirectory& directory_;
  const NetworkRegistry& networks_;
  const StudyOptions& options_;
  const StopFlag& stop_;
  StudyObserver& observer_;
  std::vector<RunRecord> records_;
  std::vector<double> durations_;  // of runs that this process did
  std::size_t toDo_ = 0;           // behind the current one
};

StudyOutcome Runner::runAll() {
  const auto isDone = [](const RunRecord& record) { return record.finished; };
  const auto done = static_cast<std::size_t>(std::count_if(records_.begin(), records_.end(), isDone));
  observer_.started(records_.size(), done);
  toDo_ = records_.size() - done;
  writeStudyReport(study_, records_, directory_.path());
  StudyOutcome outcome;
  for (std::size_t i = 0; i < records_.size() && !stop_; ++i) {
    if (records_[i].finished) continue;
    --toDo_;
    runOne(i);
    const RunRecord& record = records_[i];
    if (!record.finished && !stop_) {
      outcome.failures.push_back({.run = record.run->name,
                                  .exitCode = record.outcome.exitCode.value_or(0),
                                  .lastLine = record.outcome.lastLine});
    }
  }
  outcome.finished = static_cast<std::size_t>(std::count_if(records_.begin(), records_.end(), isDone));
  outcome.interrupted = stop_ && outcome.finished < records_.size();
  return outcome;
}

void Runner::runOne(std::size_t index) {
  const StudyRun& run = study_.runs[index];
  const fs::path job = directory_.run(run);
  std::error_code error;
  fs::create_directories(job, error);
  if (error) throw IoError(fmt::format("cannot make {}: {}", job.string(), error.message()));
  if (!waitForLock(job)) return;
  StudyObserver::Progress progress{
      .number = index + 1, .count = records_.size(), .description = variedText(run)};
  if (run.repetition > 1) progress.description += fmt::format(", repetition {}", run.repetition);
  observer_.runStarted(progress);
  const int exitCode = runProcess(records_[index], job, progress);
  records_[index] = readRecord(study_, run, job, networks_);
  if (records_[index].finished) durations_.push_back(progress.seconds);
  writeStudyReport(study_, records_, directory_.path());
  observer_.runEnded(progress, exitCode,
                     records_[index].finished ? measuredText(study_, records_[index]) : "");
}

// A study that was killed may leave a run that has its job directory until its checkpoint is written. False where the study
// is to stop.
bool Runner::waitForLock(const fs::path& job) {
  bool told = false;
  while (isLocked(job / "lock")) {
    if (stop_) return false;
    if (!told) observer_.runWaits(job);
    told = true;
    std::this_thread::sleep_for(kPollEvery);
  }
  return !stop_;
}

int Runner::runProcess(RunRecord& record, const fs::path& job, StudyObserver::Progress& progress) {
  StudyRunOutcome& outcome = record.outcome;
  outcome.command = {"cohort", "train", "--job-dir", job.string()};
  if (!study_.configText.empty()) {
    outcome.command.emplace_back("--config");
    outcome.command.push_back(directory_.config().string());
  }
  for (std::string& flag : flagsOf(record.run->given)) outcome.command.push_back(std::move(flag));
  outcome.machine = machineText(options_.version);
  ++outcome.attempts;
  outcome.exitCode.reset();
  writeOutcome(job, outcome);  // an attempt counts even when nobody sees its end

  const fs::path output = job / "output.txt";
  std::ofstream(output, std::ios::app)
      << kCommandMark << fmt::format("{}", fmt::join(outcome.command, " ")) << '\n';
  const Clock::time_point start = Clock::now();
  ChildProcess child(options_.program, outcome.command, output);
  LengthEstimate length;
  bool stopped = false;
  std::optional<int> exitCode;
  while (!(exitCode = child.exitCode())) {
    if (stop_ && !stopped) {
      child.signal(SIGTERM);
      stopped = true;
    }
    progress.lastLine = lastLineOf(output);
    progress.seconds = secondsSince(start);
    progress.secondsLeft =
        secondsLeft(length.seconds(doneShare(progress.lastLine), progress.seconds), progress.seconds);
    observer_.progressed(progress);
    std::this_thread::sleep_for(kPollEvery);
  }
  progress.lastLine = lastLineOf(output);
  if (progress.lastLine.starts_with(kCommandMark)) progress.lastLine = "";  // it printed nothing
  if (progress.lastLine.starts_with(kErrorMark)) progress.lastLine.erase(0, kErrorMark.size());
  progress.seconds = secondsSince(start);
  outcome.exitCode = exitCode;
  outcome.wallSeconds += progress.seconds;
  outcome.lastLine = progress.lastLine;
  writeOutcome(job, outcome);
  return *exitCode;
}

// The runs to come are taken to be as long as those of before, or as this one seems to become (`whole`).
double Runner::secondsLeft(double whole, double now) const {
  double typical = whole;
  if (!durations_.empty()) {
    typical = 0;
    for (const double seconds : durations_) typical += seconds / static_cast<double>(durations_.size());
    if (whole < 0) whole = typical;
  }
  return whole < 0 ? -1 : std::max(0.0, whole - now) + typical * static_cast<double>(toDo_);
}

}  // namespace

StudyOutcome runStudy(const Study& study, const StudyDirectory& directory, const NetworkRegistry& networks,
                      const StudyOptions& options, const StopFlag& stop, StudyObserver& observer) {
  return Runner(study, directory, networks, options, stop, observer).runAll();
}

std::vector<bool> finishedRuns(const Study& study, const fs::path& directory,
                               const NetworkRegistry& networks) {
  std::vector<bool> finished;
  for (const StudyRun& run : study.runs)
    finished.push_back(isFinished(directory / "runs" / run.name, study, run, networks));
  return finished;
}

double doneShare(const std::string& progressLine) {
  constexpr std::string_view kStep = "step ";
  if (!progressLine.starts_with(kStep)) return 0;
  const char* end = progressLine.data() + progressLine.size();
  std::int64_t step = 0;
  const auto afterStep = std::from_chars(progressLine.data() + kStep.size(), end, step);
  if (afterStep.ec != std::errc() || afterStep.ptr == end || *afterStep.ptr != '/') return 0;
  std::int64_t target = 0;
  const auto afterTarget = std::from_chars(afterStep.ptr + 1, end, target);
  if (afterTarget.ec != std::errc() || target < 1 || step < 0 || step > target) return 0;
  return static_cast<double>(step) / static_cast<double>(target);
}

}  // namespace cohort
