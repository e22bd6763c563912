// Whether a run's last checkpoint will fit into the time that a scheduler grants between its signal and the end. Private to cli.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/environment.h"
#include "report/console.h"
#include "train/run.h"

namespace cohort {

// Seconds, where the batch script has told them. UsageError where the text is no number.
std::optional<double> graceSeconds(const Environment& environment);

// What to say of a stop that takes so many seconds, of which `why` says where they come from; empty where the time is enough. Half of
// it should be left: disks are not always as fast as they were.
std::string graceNote(double grace, double seconds, const std::string& why);

// Warns once: at the start by how fast the job directory can be written, later by what steps and checkpoints have taken.
class GraceWatch : public RunObserver {
 public:
  GraceWatch(double grace, std::filesystem::path jobDirectory, Screen& screen);

  void started(const Started& run) override;
  void progressed(const Progress& progress) override;
  void checkpointWritten(double seconds) override;

 private:
  void compare(double seconds, const std::string& why);

  double grace_;
  std::filesystem::path jobDirectory_;
  Screen& screen_;
  std::optional<Clock::time_point> lastStep_;
  double stepSeconds_ = 0;  // the longest so far, without the first
  bool hasWarned_ = false;
};

}  // namespace cohort
