// A worker's own log, JOB_DIR/logs/worker-NAME.txt: a line for everything that it tells, each with the time and the step; in a
// center, where a worker's steps are not the run's, with both. Restarted workers add to what is there.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/run.h"

namespace cohort {

class WorkerLog : public RunObserver {
 public:
  enum class Counts { Run, RunAndOwn };  // steps
  // `name`: a number, or where it runs. Makes the folder where it is missing. IoError where the file cannot be opened.
  WorkerLog(const std::filesystem::path& jobDirectory, const std::string& name, Counts counts = Counts::Run);
  // From now on, what the process prints goes there too.
  void takeOutput();

  void started(const Started& run) override;
  void worked(const Worked& worked) override;
  void logged(const TrainPoint& point) override;
  void evaluated(const EvaluationPoint& point) override;
  void checkpointed(Step step) override;
  void checkpointWritten(double seconds) override;
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
