// Doing a study: every run that is not finished yet, one after the other, each a process of its own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "models/network.h"
#include "study/study.h"
#include "study/study_directory.h"
#include "train/run.h"

namespace cohort {

// What a study tells while it goes; called from the thread that runs it.
class StudyObserver {
 public:
  struct Progress {
    std::size_t number = 0;        // this run, from 1
    std::size_t count = 0;         // of so many
    std::string description = {};  // its values
    std::string lastLine = {};     // that it printed
    double seconds = 0;            // since it was started
    double secondsLeft = -1;       // of the whole study; negative: unknown
  };
  virtual ~StudyObserver() = default;
  // `finished` of the runs were done before.
  virtual void started(std::size_t count, std::size_t finished) = 0;
  virtual void runStarted(const Progress& progress) = 0;
  virtual void runWaits(const std::filesystem::path& jobDirectory) = 0;  // another process still has it
  virtual void progressed(const Progress& progress) = 0;                 // several times a second
  // `measured`: "images_per_s 1,234, accuracy 0.92" where it has finished.
  virtual void runEnded(const Progress& progress, int exitCode, const std::string& measured) = 0;
};

struct StudyOutcome {
  struct Failure {
    std::string run = {};
    int exitCode = 0;
    std::string lastLine = {};
  };
  std::size_t finished = 0;  // of all runs, those of before included
  std::vector<Failure> failures = {};
  bool interrupted = false;
};

struct StudyOptions {
  std::filesystem::path program =
      "/proc/self/exe";      // knows the same networks and is there even when replaced
  std::string version = {};  // for the records
};

// A run that fails is recorded, and the others go on. `stop` is passed on to the run that is going, which then writes a
// checkpoint; the study ends with it. Tables and charts are written anew after every run.
StudyOutcome runStudy(const Study& study, const StudyDirectory& directory, const NetworkRegistry& networks,
                      const StudyOptions& options, const StopFlag& stop, StudyObserver& observer);

// Which runs are finished in this folder; nothing is written, and the folder need not exist.
std::vector<bool> finishedRuns(const Study& study, const std::filesystem::path& directory,
                               const NetworkRegistry& networks);

// The part of a run that "step 120/900 …" says is done; 0 for other lines.
double doneShare(const std::string& progressLine);

}  // namespace cohort
