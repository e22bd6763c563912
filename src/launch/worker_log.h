// A worker's own log, JOB_DIR/logs/worker-K.txt: a line for everything that it tells, each with the time and the step.
// Restarted workers add to what is there.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "train/run.h"

namespace cohort {

class WorkerLog : public RunObserver {
 public:
  // Makes the folder where it is missing. IoError where the file cannot be opened.
  WorkerLog(const std::filesystem::path& jobDirectory, int worker);
  // From now on, what the process prints goes there too.
  void takeOutput();

  void started(const Started& run) override;
  void worked(const Worked& worked) override;
  void logged(const TrainPoint& point) override;
  void evaluated(const EvaluationPoint& point) override;
  void checkpointed(Step step) override;
  void warned(const std::string& what) override;
  void say(const std::string& text);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  Step step_ = 0;
  std::optional<Step> ownSteps_;  // where they are not the run's
};

}  // namespace cohort
