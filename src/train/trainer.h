// The training step, on one worker's lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/batch.h"
#include "sync/sync_rule.h"
#include "train/activity.h"
#include "train/lanes.h"

namespace cohort {

// Seconds that lanes spent, all lanes together.
struct PhaseSeconds {
  double data = 0;     // waiting for samples, or making them where no thread had begun
  double forward = 0;  // with refreshing the weights' kernel layouts
  double backward = 0;
  double wait = 0;  // for other lanes and workers, at the end of steps
};

class Trainer {
 public:
  // One model per lane; everything outlives the trainer.
  Trainer(Lanes& lanes, const std::vector<Trainable*>& models, SyncRule& rule, Activity& activity);

  // A lane's next samples, which are these; valid until its next call.
  using NextBatch = std::function<Batch(int lane, Step step, GrainIndex grain)>;
  // Computes the step; afterwards the weights are the next step's.
  StepResult step(Step step, const NextBatch& batches, Wishes wishes = 0);
  PhaseSeconds seconds() const;

 private:
  // Each lane writes only its own, on cache lines of its own.
  struct alignas(64) Lane {
    Trainable* model = nullptr;
    PhaseSeconds seconds;
  };

  void runLane(int index, Step step, const NextBatch& batches);

  Lanes& lanes_;
  SyncRule& rule_;
  Activity& activity_;
  std::vector<Lane> lane_;
  double waitSeconds_ = 0;  // of all lanes, for other workers
};

}  // namespace cohort
