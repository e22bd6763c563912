#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
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
    console_.progress({p.step, p.targetStep, p.loss, p.imagesPerSecond, p.secondsLeft});
  }
  void evaluated(Step step, const LossSum& sums) override {
    console_.print(fmt::format("step {}: test loss {:.4f}, accuracy {:.4f}, top-5 {:.4f}", step,
                               sums.meanLoss(), sums.accuracy(), sums.top5Accuracy()));
  }
  void warned(const std::string& what) override { console_.print("warning: " + what); }

 private:
  Console& console_;
};

void printSummary(Console& console, const RunSummary& s) {
  const SpeedStatistics& speed = s.speed;
  if (s.evaluation) {
    console.print(fmt::format("test accuracy {:.4f} (top-5 {:.4f}, loss {:.4f}) at step {}",
                              s.evaluation->accuracy(), s.evaluation->top5Accuracy(),
                              s.evaluation->meanLoss(), s.step));
  }
  if (s.step > s.startStep) {
    console.print(
        fmt::format("{} steps in {}: {:.1f} images/s (+- {:.1f}, jitter {:.1f}), median step {:.4f} s",
                    s.step - s.startStep, clockText(s.elapsedSeconds), speed.imagesPerSecond,
                    speed.uncertainty, speed.jitter, speed.medianStepSeconds));
    console.print(
        fmt::format("time: data {:.1f} s, forward {:.1f} s, backward {:.1f} s, update {:.1f} s, checkpoint "
                    "{:.1f} s, evaluation "
                    "{:.1f} s; peak memory {}",
                    s.dataSeconds, s.forwardSeconds, s.backwardSeconds, s.updateSeconds, s.checkpointSeconds,
                    s.evaluationSeconds, bytesText(static_cast<double>(s.peakMemoryBytes))));
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

int trainCommand(const NetworkRegistry& networks, const TrainArguments& arguments) {
  Console console(stdout, isatty(STDOUT_FILENO) != 0);
  ConsoleObserver observer(console);
  std::filesystem::path directory = jobDirectoryOf(arguments.layers);
  const auto stored = directory.empty() ? std::nullopt : storedConfig(directory);
  RunConfig config = resolveLayers(networks, stored, arguments.layers);
  for (const std::string& note : arguments.notes) console.print("note: " + note);
  if (directory.empty()) directory = newJobDirectory(config.network);
  const JobDirectory job(directory);
  const StopFlag& stop = stopOnSignals();
  const RunSummary summary =
      runTraining(networks, std::move(config), job, stop, arguments.processStart, observer);
  console.endProgress();
  printSummary(console, summary);
  if (summary.interrupted) {
    console.print(
        fmt::format("stopped by a signal; go on with: cohort train --job-dir {}", directory.string()));
    return kResume;
  }
  return kSuccess;
}

int evaluateCommand(const NetworkRegistry& networks, const EvaluateArguments& arguments) {
  Console console(stdout, false);
  ConsoleObserver observer(console);
  const EvaluationResult result = runEvaluation(networks, arguments.jobDirectory, arguments.checkpoint,
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
