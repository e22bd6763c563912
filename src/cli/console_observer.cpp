#include "cli/console_observer.h"

#include <fmt/format.h>

#include "train/config_file.h"

namespace cohort {

void ConsoleObserver::started(const Started& run) {
  if (!run.isShown) return;
  const std::string lanes = fmt::format("{} lane{}", run.lanes, run.lanes == 1 ? "" : "s");
  std::string where = lanes;
  if (run.workers > 1) where = fmt::format("{} workers, each with {}", run.workers, lanes);
  if (run.isVirtual) where = fmt::format("{} virtual workers on {}", run.workers, lanes);
  if (run.hasUnequalWorkers) where = fmt::format("{} workers", run.workers);
  console_.print(fmt::format("{} on {}: {} parameters, batch {} in {} grains on {}", run.network, run.dataset,
                             groupedText(static_cast<std::int64_t>(run.parameters)), run.batchSize,
                             run.grains, where));
  if (run.idleLanes > 0) {
    console_.print(fmt::format("{} of {} threads have nothing to do: there are {} grains (see --grains)",
                               run.idleLanes, run.idleLanes + run.lanes, run.grains));
  }
  for (const std::string& note : run.notes) console_.print("note: " + note);
  if (run.startStep > 0) console_.print(fmt::format("resuming at step {}", run.startStep));
  if (run.targetStep > 0 && run.startStep >= run.targetStep) {
    console_.print(fmt::format("step {} is reached already; a larger --train-steps goes on", run.targetStep));
  }
}

void ConsoleObserver::progressed(const Progress& p) {
  progress_ = {.step = p.step,
               .targetStep = p.targetStep,
               .loss = p.loss,
               .imagesPerSecond = p.imagesPerSecond,
               .secondsLeft = p.secondsLeft,
               .learningRate = p.learningRate,
               .virtualSeconds = p.clock.seconds};
  if (!p.logPoint) console_.progress(progress_);
}

void ConsoleObserver::logged(const TrainPoint& point) {
  progress_.loss = point.loss;
  progress_.imagesPerSecond = point.imagesPerSecond;
  progress_.accuracy = point.accuracy;
  progress_.learningRate = point.learningRate;
  progress_.seconds = point.seconds;
  progress_.logPoint = true;
  console_.progress(progress_);
}

void ConsoleObserver::evaluated(const EvaluationPoint& p) {
  const std::string time = p.clock.isThere() ? fmt::format(" ({:.3f} virtual s)", p.clock.seconds) : "";
  console_.print(fmt::format("step {}{}: {} loss {:.4f}, accuracy {:.4f}, top-5 {:.4f}", p.step, time,
                             p.split, p.loss, p.accuracy, p.top5));
}

void ConsoleObserver::checkpointed(Step step) {
  console_.detail(fmt::format("step {}: checkpoint", step));
}

void ConsoleObserver::checkpointWritten(double seconds) {
  console_.detail(fmt::format("checkpoint written in {:.2f} s", seconds));
}

void printPlan(Screen& console, const RunConfig& config, const std::filesystem::path& directory) {
  console.detail(fmt::format("job directory {}", directory.string()));
  std::string settings = toYaml(config);
  settings.pop_back();  // its newline
  console.detail(settings);
}

void printSummary(Screen& console, const RunSummary& s) {
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
  }
  if (s.inVirtualTime) {
    console.print(fmt::format("peak memory {}", bytesText(static_cast<double>(s.peakMemoryBytes))));
  } else if (s.step > s.startStep) {
    console.print(fmt::format(
        "time: waiting for data {:.1f} s ({:.1f} %), forward {:.1f} s, backward {:.1f} s, update {:.1f} s, "
        "{}checkpoint {:.1f} s, evaluation {:.1f} s; peak memory {}",
        s.dataSeconds, 100 * s.dataShare(), s.forwardSeconds, s.backwardSeconds, s.updateSeconds,
        s.workers.size() > 1 ? fmt::format("waiting for other workers {:.1f} s, ", s.waitSeconds) : "",
        s.checkpointSeconds, s.evaluationSeconds, bytesText(static_cast<double>(s.peakMemoryBytes))));
  }
  console.print(fmt::format("weights {}", s.weightsHash));
  console.print(fmt::format("checkpoint {}", s.checkpoint));
}

}  // namespace cohort
