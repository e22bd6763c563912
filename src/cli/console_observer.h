// A run on the terminal: what it tells while it goes, and what it came to. Private to cli.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/console.h"
#include "train/run.h"

namespace cohort {

class ConsoleObserver : public RunObserver {
 public:
  explicit ConsoleObserver(Screen& console) : console_(console) {}

  void started(const Started& run) override;
  void progressed(const Progress& progress) override;
  void logged(const TrainPoint& point) override;
  void evaluated(const EvaluationPoint& point) override;
  void checkpointed(Step step) override;
  void checkpointWritten(double seconds) override;
  void warned(const std::string& what) override { console_.warn(what); }

 private:
  Screen& console_;
  ProgressReport progress_;
};

// Tells several.
class Observers : public RunObserver {
 public:
  void add(RunObserver& observer) { all_.push_back(&observer); }

  void started(const Started& run) override { tell(&RunObserver::started, run); }
  void worked(const Worked& worked) override { tell(&RunObserver::worked, worked); }
  void progressed(const Progress& progress) override { tell(&RunObserver::progressed, progress); }
  void logged(const TrainPoint& point) override { tell(&RunObserver::logged, point); }
  void evaluated(const EvaluationPoint& point) override { tell(&RunObserver::evaluated, point); }
  void checkpointed(Step step) override { tell(&RunObserver::checkpointed, step); }
  void checkpointWritten(double seconds) override { tell(&RunObserver::checkpointWritten, seconds); }
  void warned(const std::string& what) override { tell(&RunObserver::warned, what); }

 private:
  template <class Member, class Value>
  void tell(Member member, const Value& value) {
    for (RunObserver* observer : all_) (observer->*member)(value);
  }

  std::vector<RunObserver*> all_;
};

// Settings that are still open here (0 or empty) will be the dataset's or the machine's.
void printPlan(Screen& console, const RunConfig& config, const std::filesystem::path& directory);
void printSummary(Screen& console, const RunSummary& summary);

}  // namespace cohort
