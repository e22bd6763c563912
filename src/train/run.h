// A whole training run, as one worker sees it: data, model, loop, evaluations, checkpoints, resume, summary.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/host.h"
#include "base/trainable.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "models/network.h"
#include "report/records.h"
#include "train/activity.h"
#include "train/job_directory.h"
#include "train/run_config.h"
#include "train/summary.h"

namespace cohort {

class Connector;

// What a run finds by name, and where it may keep what it measured of a dataset.
struct RunContext {
  NetworkRegistry networks = builtinNetworks();
  DatasetRegistry datasets = builtinDatasets();
  ExchangeRules rules = builtinExchangeRules();  // beside those that have no exchange
  std::filesystem::path cacheDirectory{};        // empty: nowhere
};

// Which worker of a run this process is.
struct WorkerPlace {
  Communicator& workers;
  Activity& activity;             // told what it does
  OwnedCores cores = ownCores();  // for its lanes
};

// What a run tells while it goes; called from the training thread, between steps.
class RunObserver {
 public:
  struct Started {
    std::string network, dataset;
    std::size_t parameters = 0;
    std::int64_t batchSize = 0, grains = 0;
    int workers = 1;
    bool isVirtual = false;          // its workers: in virtual time, on the lanes of this process
    bool hasUnequalWorkers = false;  // a note says in what
    int lanes = 0, idleLanes = 0;    // of this worker; idle: asked for, but there are fewer grains
    int dataThreads = 0;
    std::int64_t trainSamples = 0, evaluationSamples = 0;
    Step startStep = 0;
    Step targetStep = 0;                // 0: until the time is over
    std::uint64_t checkpointBytes = 0;  // 0: not known
    std::vector<std::string> notes;     // what else to know beforehand
    bool isShown = true;                // otherwise another worker shows the same
  };
  struct Progress {
    Step step = 0;        // done
    Step targetStep = 0;  // 0: unknown
    double loss = 0;      // of this step
    double imagesPerSecond = 0;
    double learningRate = 0;
    double secondsLeft = -1;  // negative: unknown
    bool logPoint = false;    // logged() follows
    VirtualClock clock{};
  };

  // One of a center's workers, now and then.
  struct Worked {
    Step ownSteps = 0;  // that this worker has computed
    Step step = 0;      // done by all
    double loss = 0;    // of its last work
  };

  virtual ~RunObserver() = default;
  virtual void started(const Started&) {}
  virtual void worked(const Worked&) {}
  virtual void progressed(const Progress&) {}
  // At log points; recorded in the job directory already.
  virtual void logged(const TrainPoint&) {}
  virtual void evaluated(const EvaluationPoint&) {}  // on the way; the last one is in the summary
  virtual void checkpointed(Step) {}
  // A checkpoint, perhaps of some steps ago, is on the disk, so many seconds after it was begun.
  virtual void checkpointWritten(double) {}
  virtual void warned(const std::string&) {}
};

// Set from another thread: stop at the next step boundary.
using StopFlag = std::atomic<bool>;

// Trains until the configuration's length is reached or `stop` is set, resuming from the job directory's last good
// checkpoint. Writes a checkpoint and summary.json at the end. UsageError where the loss is no longer finite.
//
// With several workers, all call this with the same configuration (where they differ: a UsageError that says in what) and a
// job directory that all share; a `stop` on one stops all after the same step. The first one alone writes records.
RunSummary runTraining(const RunContext& context, RunConfig config, const JobDirectory& job,
                       const StopFlag& stop, std::chrono::steady_clock::time_point processStart,
                       RunObserver& observer, const WorkerPlace& place);

// One of the workers of a center.
struct CenterPlace {
  std::shared_ptr<Connector> servers;
  Activity& activity;             // told what it does
  OwnedCores cores = ownCores();  // for its lanes
  std::string name{};             // for people
  Communicator* group =
      nullptr;          // whose first worker speaks with the servers for all; none: this worker alone does
  bool isFirst = true;  // tells how the run starts
};

// The same for a worker of a center. The worker that is the center's chief writes records and checkpoints; where it leaves, another
// goes on with that.
RunSummary runWithCenter(const RunContext& context, RunConfig config, const JobDirectory& job,
                         const StopFlag& stop, std::chrono::steady_clock::time_point processStart,
                         RunObserver& observer, const CenterPlace& place);

struct EvaluationResult {
  std::filesystem::path checkpoint;
  Step step = 0;
  LossSum sums;
  std::string weightsHash;
};

// Evaluates a job directory's newest whole checkpoint (or `checkpoint`, where given) on a split of its dataset.
EvaluationResult runEvaluation(const RunContext& context, const std::filesystem::path& jobDirectory,
                               const std::filesystem::path& checkpoint, const std::string& split, int threads,
                               RunObserver& observer);

}  // namespace cohort
