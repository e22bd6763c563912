#include "launch/worker_log.h"

#include <cerrno>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {

namespace fs = std::filesystem;

WorkerLog::WorkerLog(const fs::path& jobDirectory, const std::string& name, Counts counts) {
  if (counts == Counts::RunAndOwn) ownSteps_ = 0;
  const fs::path path = jobDirectory / "logs" / fmt::format("worker-{}.txt", name);
  std::error_code ignored;  // opening says why
  fs::create_directories(path.parent_path(), ignored);
  file_.reset(std::fopen(path.c_str(), "ae"));
  if (!file_) throw IoError(fmt::format("cannot open {}: {}", path.string(), systemMessage(errno)));
}

void WorkerLog::takeOutput() {
  std::fflush(stdout);
  std::fflush(stderr);
  ::dup2(::fileno(file_.get()), STDOUT_FILENO);
  ::dup2(::fileno(file_.get()), STDERR_FILENO);
}

// A log that cannot be written must not end a run.
void WorkerLog::say(const std::string& text) {
  const std::string own = ownSteps_ ? fmt::format(", own step {}", *ownSteps_) : "";
  const std::string line = fmt::format("{:%Y-%m-%d %H:%M:%S} step {}{}: {}\n",
                                       fmt::localtime(std::time(nullptr)), step_, own, text);
  std::fputs(line.c_str(), file_.get());
  std::fflush(file_.get());
}

void WorkerLog::started(const Started& run) {
  step_ = run.startStep;
  say(fmt::format("{} on {}, process {}: {} lane{}, batch {} in {} grains over {} worker{}", run.network,
                  run.dataset, ::getpid(), run.lanes, run.lanes == 1 ? "" : "s", run.batchSize, run.grains,
                  run.workers, run.workers == 1 ? "" : "s"));
}

void WorkerLog::worked(const Worked& worked) {
  step_ = worked.step;
  ownSteps_ = worked.ownSteps;
  say(fmt::format("loss {:.4f} of its last work", worked.loss));
}

void WorkerLog::logged(const TrainPoint& point) {
  step_ = point.step;
  const TimeShares& s = point.seconds;
  say(fmt::format(
      "loss {:.4f}, {:.1f} images/s; data {:.2f} s, forward {:.2f} s, backward {:.2f} s, update {:.2f} s, "
      "waiting for others {:.2f} s",
      point.loss, point.imagesPerSecond, s.data, s.forward, s.backward, s.update, s.wait));
}

void WorkerLog::evaluated(const EvaluationPoint& point) {
  step_ = point.step;
  say(fmt::format("evaluated on {}", point.split));
}

void WorkerLog::checkpointed(Step step) {
  step_ = step;
  say("checkpoint");
}

void WorkerLog::checkpointWritten(double seconds) {
  say(fmt::format("checkpoint written in {:.2f} s", seconds));
}

void WorkerLog::warned(const std::string& what) {
  say("warning: " + what);
}

}  // namespace cohort
