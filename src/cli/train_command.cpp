#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "report/console.h"
#include "train/config_file.h"
#include "train/run.h"

namespace cohort {
namespace {

class ConsoleObserver : public RunObserver {
 public:
  explicit ConsoleObserver(Console& console) : console_(console) {}

  void started(const Started& run) override {
    console_.print(fmt::format("{} on {}: {} parameters, batch {} in {} grains on {} lane{}", run.network,
                               run.dataset, groupedText(static_cast<std::int64_t>(run.parameters)),
                               run.batchSize, run.grains, run.lanes, run.lanes == 1 ? "" : "s"));
    if (run.idleLanes > 0) {
      console_.print(fmt::format("{} of {} threads have nothing to do: there are {} grains (see --grains)",
                                 run.idleLanes, run.idleLanes + run.lanes, run.grains));
    }
    if (run.startStep > 0) console_.print(fmt::format("resuming at step {}", run.startStep));
    if (run.targetStep > 0 && run.startStep >= run.targetStep) {
      console_.print(
          fmt::format("step {} is reached already; a larger --train-steps goes on", run.targetStep));
    }
  }
  void progressed(const Progress& p) override {
    progress_ = {.step = p.step,
                 .targetStep = p.targetStep,
                 .loss = p.loss,
                 .imagesPerSecond = p.imagesPerSecond,
                 .secondsLeft = p.secondsLeft,
                 .learningRate = p.learningRate};
    if (!p.logPoint) console_.progress(progress_);
  }
  void logged(const TrainPoint& point) override {
    progress_.loss = point.loss;
    progress_.imagesPerSecond = point.imagesPerSecond;
    progress_.accuracy = point.accuracy;
    progress_.learningRate = point.learningRate;
    progress_.seconds = point.seconds;
    progress_.logPoint = true;
    console_.progress(progress_);
  }
  void evaluated(const EvaluationPoint& p) override {
    console_.print(fmt::format("step {}: {} loss {:.4f}, accuracy {:.4f}, top-5 {:.4f}", p.step, p.split,
                               p.loss, p.accuracy, p.top5));
  }
  void checkpointed(Step step) override { console_.detail(fmt::format("step {}: checkpoint", step)); }
  void warned(const std::string& what) override { console_.warn(what); }

 private:
  Console& console_;
  ProgressReport progress_;
};

// Settings that are still open here (0 or empty) will be the dataset's or the machine's.
void printPlan(Console& console, const RunConfig& config, const std::filesystem::path& directory) {
  console.detail(fmt::format("job directory {}", directory.string()));
  std::string settings = toYaml(config);
  settings.pop_back();  // its newline
  console.detail(settings);
}

void printSummary(Console& console, const RunSummary& s) {
  const SpeedStatistics& speed = s.speed;
  if (s.evaluation) {
    console.result(fmt::format("{} accuracy {:.4f} (top-5 {:.4f}, loss {:.4f}) at step {}", s.evaluatedOn,
                               s.evaluation->accuracy(), s.evaluation->top5Accuracy(),
                               s.evaluation->meanLoss(), s.step));
  }
  if (s.step > s.startStep) {
    console.print(
        fmt::format("{} steps in {}: {:.1f} images/s (+- {:.1f}, jitter {:.1f}), median step {:.4f} s",
                    s.step - s.startStep, clockText(s.elapsedSeconds), speed.imagesPerSecond,
                    speed.uncertainty, speed.jitter, speed.medianStepSeconds));
    console.print(fmt::format(
        "time: waiting for data {:.1f} s ({:.1f} %), forward {:.1f} s, backward {:.1f} s, update {:.1f} s, "
        "checkpoint {:.1f} s, evaluation {:.1f} s; peak memory {}",
        s.dataSeconds, 100 * s.dataShare(), s.forwardSeconds, s.backwardSeconds, s.updateSeconds,
        s.checkpointSeconds, s.evaluationSeconds, bytesText(static_cast<double>(s.peakMemoryBytes))));
  }
  console.print(fmt::format("weights {}", s.weightsHash));
  console.print(fmt::format("checkpoint {}", s.checkpoint));
}

// Empty: nobody says.
std::string jobDirectoryOf(const std::vector<GivenSettings>& layers) {
  std::string directory;
  for (const GivenSettings& layer : layers) {
    const auto found = layer.find(kJobDirectory);
    if (found == layer.end()) continue;
    directory = found->second.back();
    if (directory.empty()) throw UsageError("--job-dir needs a folder's name; without it a new one is made");
  }
  return directory;
}

}  // namespace

namespace {

// Trains as the worker at this place.
int trainAsWorker(const RunContext& context, const TrainArguments& arguments, const StopFlag& stop,
                  const WorkerPlace& place) {
  Communicator& workers = place.workers;
  Console console(stdout, stderr,
                  terminalOptions(workers.isFirst() ? arguments.verbosity : Verbosity::Quiet));
  ConsoleObserver observer(console);
  const Channel channel(workers, 0);
  std::filesystem::path directory = jobDirectoryOf(arguments.layers);
  const auto stored = directory.empty() ? std::nullopt : storedConfig(directory);
  RunConfig config = resolveLayers(context.networks, stored, arguments.layers);
  if (workers.isFirst()) {
    for (const std::string& note : arguments.notes) console.print("note: " + note);
    if (directory.empty()) directory = newJobDirectory(config.network);
  }
  std::optional<JobDirectory> job;
  if (workers.isFirst()) job.emplace(directory);
  directory = channel.broadcast(directory.string(), "the job directory's name");
  if (!workers.isFirst()) job.emplace(directory, JobDirectory::Role::Member);
  if (workers.isFirst()) printPlan(console, config, directory);
  const RunSummary summary =
      runTraining(context, std::move(config), *job, stop, arguments.processStart, observer, place);
  console.endProgress();
  if (workers.isFirst()) printSummary(console, summary);
  if (summary.interrupted) {
    if (workers.isFirst()) {
      console.result(
          fmt::format("stopped by a signal; go on with: cohort train --job-dir {}", directory.string()));
    }
    return kResume;
  }
  return kSuccess;
}

}  // namespace

int trainCommand(const RunContext& context, const TrainArguments& arguments) {
  const StopFlag& stop = stopOnSignals();
  if (startedByMpi()) {
    const MpiSession session;
    Communicator workers(mpiTransport(session));
    return trainAsWorker(
        context, arguments, stop,
        {.workers = workers, .localRank = session.localRank(), .localSize = session.localSize()});
  }
  Communicator alone;
  return trainAsWorker(context, arguments, stop, {.workers = alone});
}

int evaluateCommand(const RunContext& context, const EvaluateArguments& arguments) {
  Console console(stdout, stderr, {});
  ConsoleObserver observer(console);
  const EvaluationResult result = runEvaluation(context, arguments.jobDirectory, arguments.checkpoint,
                                                arguments.split, arguments.threads, observer);
  console.print(fmt::format("checkpoint {}", result.checkpoint.string()));
  console.print(fmt::format("step {}", result.step));
  console.print(fmt::format("{} {} samples: loss {:.6f}, top-1 {:.4f}, top-5 {:.4f}", result.sums.samples,
                            arguments.split, result.sums.meanLoss(), result.sums.accuracy(),
                            result.sums.top5Accuracy()));
  console.print(fmt::format("weights {}", result.weightsHash));
  return kSuccess;
}

}  // namespace cohort
