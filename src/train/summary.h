// What a run comes to, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/trainable.h"
#include "center/status.h"
#include "report/records.h"
#include "simulation/virtual_outcome.h"
#include "train/statistics.h"

namespace cohort {

// One worker's part.
struct WorkerSummary {
  std::string host;
  int lanes = 0;
  double imagesPerSecond = 0;  // its own images, in the time that it did not wait at the end of steps
  double uncertainty = 0;
  double jitter = 0;
  double waitSeconds = 0;           // for others, at the end of steps
  double communicationSeconds = 0;  // processor time of its communication thread
  double dataSeconds = 0;           // waiting for samples
  double sentBytesPerStep = 0;      // to other workers, in steps: not for evaluations and checkpoints
  std::int64_t peakMemoryBytes = 0;
};

// How a worker's part of a run ended.
enum class Ending {
  Done,     // the run has reached its length
  Stopped,  // the whole run was asked to stop; it goes on from its last checkpoint
  Left,     // this worker of a center alone was asked to stop; the run goes on with others
};

struct RunSummary {
  std::string network;
  std::string dataset;
  Step startStep = 0;
  Step step = 0;
  double loss = 0;                    // mean training loss of the last steps (up to 100); NaN without one
  std::optional<LossSum> evaluation;  // at the end; nothing where the run was interrupted
  std::string evaluatedOn = "test";   // or "validation"
  double elapsedSeconds = 0;          // of this process, from its start
  double startupSeconds = 0;          // until the first step began
  double cpuSeconds = 0;
  SpeedStatistics speed;
  // Shares of the steps' time, seconds of wall time: lanes' time divided by lanes.
  double dataSeconds = 0;  // lanes waited for samples
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double updateSeconds = 0;
  double waitSeconds = 0;        // for other workers
  double checkpointSeconds = 0;  // that training stood still
  double evaluationSeconds = 0;
  double sentBytesPerStep = 0;  // a worker's, on average
  std::int64_t batchSize = 0;
  std::int64_t peakMemoryBytes = 0;
  // Of the first worker's time in layers, by their kind; collectives with the time that they wait.
  struct LayerShares {
    double conv = 0;
    double dense = 0;
    double pool = 0;
    double collective = 0;
  };
  std::optional<LayerShares> layerShares;  // nothing where layers are not known
  double denseWeightShare = 0;             // of the network's weights
  int threads = 0;
  std::string weightsHash;
  std::string checkpoint;  // the last one's path
  bool interrupted = false;
  Ending ending = Ending::Done;        // of a center's workers
  bool isChief = true;                 // of a center's workers, whose summary is the run's
  std::vector<WorkerSummary> workers;  // by rank; on the first one only
  std::vector<ServerStatus> center;    // its servers, at the end; none without one

  struct Virtual {
    VirtualOutcome outcome;
    int workers = 0;
    int servers = 0;
    std::int64_t samples = 0;  // of all works that counted

    double samplesPerSecond() const {
      return outcome.time > 0 ? static_cast<double>(samples) / secondsOf(outcome.time) : 0;
    }
  };
  std::optional<Virtual> inVirtualTime;

  // Between workers, or between them and their servers, for each sample that was trained with.
  double movedBytesPerSample() const;

  // Of the steps' time: how much training waited for data.
  double dataShare() const {
    const double all = dataSeconds + forwardSeconds + backwardSeconds + updateSeconds + waitSeconds;
    return all > 0 ? dataSeconds / all : 0;
  }
};

// Where the steps' time went.
void addTimes(RunSummary& summary, const TimeShares& seconds);

std::string toJson(const RunSummary& summary);

// Between workers; what toJson gives.
std::string toJson(const WorkerSummary& worker);
WorkerSummary workerSummary(const std::string& text);

}  // namespace cohort
