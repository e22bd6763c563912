// For tests only: whole training runs in one process.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/run.h"

namespace cohort {

// Keeps what a run tells; asks for a stop after a step where `stopAfter` says so.
class Recorder : public RunObserver {
 public:
  explicit Recorder(Step stopAfter = -1) : stopAfter_(stopAfter) {}

  void progressed(const Progress& p) override {
    losses.push_back(p.loss);
    if (p.step == stopAfter_) stop = true;
  }
  void evaluated(const EvaluationPoint& point) override { evaluations.push_back(point.step); }
  void warned(const std::string& what) override { warnings.push_back(what); }

  StopFlag stop = false;
  std::vector<double> losses;
  std::vector<Step> evaluations;
  std::vector<std::string> warnings;

 private:
  Step stopAfter_;
};

// `base` with some settings changed or added.
inline GivenSettings with(GivenSettings base, const GivenSettings& more) {
  for (const auto& [name, values] : more) base[name] = values;
  return base;
}

// What `cohort train --job-dir JOB SETTINGS…` does, with the networks and datasets of `context`.
inline RunSummary train(const RunContext& context, const std::filesystem::path& jobPath,
                        const GivenSettings& given, Recorder& recorder) {
  const RunConfig config = resolveConfig(context.networks, storedConfig(jobPath), given);
  const JobDirectory job(jobPath);
  Communicator alone;
  Activity activity;
  return runTraining(context, config, job, recorder.stop, std::chrono::steady_clock::now(), recorder,
                     {.workers = alone, .activity = activity});
}

inline RunSummary train(const std::filesystem::path& jobPath, const GivenSettings& given,
                        Recorder& recorder) {
  return train(RunContext(), jobPath, given, recorder);
}

inline RunSummary train(const std::filesystem::path& jobPath, const GivenSettings& given) {
  Recorder silent;
  return train(jobPath, given, silent);
}

inline EvaluationResult evaluate(const std::filesystem::path& jobPath, int threads,
                                 const std::string& split = "test") {
  Recorder silent;
  return runEvaluation(RunContext(), jobPath, {}, split, threads, silent);
}

inline std::vector<Step> checkpointSteps(const std::filesystem::path& jobPath) {
  std::vector<Step> steps;
  for (const CheckpointFile& file : listCheckpoints(jobPath / "checkpoints")) {
    steps.push_back(file.step);
  }
  return steps;
}

}  // namespace cohort
