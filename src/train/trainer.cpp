#include "train/trainer.h"

#include <chrono>

#include "base/error.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time since `since` to `seconds`, and moves `since` on.
void addLap(Clock::time_point& since, double& seconds) {
  const Clock::time_point now = Clock::now();
  seconds += std::chrono::duration<double>(now - since).count();
  since = now;
}

}  // namespace

Trainer::Trainer(Lanes& lanes, const std::vector<Trainable*>& models, SyncRule& rule, Activity& activity)
    : lanes_(lanes), rule_(rule), activity_(activity) {
  COHORT_CHECK(static_cast<int>(models.size()) == lanes.count(), "every lane has a model");
  for (Trainable* model : models) {
    lane_.push_back({model, {}});
  }
}

StepResult Trainer::step(Step step, const NextBatch& batches, Wishes wishes) {
  rule_.beginStep(step, wishes);
  lanes_.run([this, step, &batches](int lane) { runLane(lane, step, batches); });
  Clock::time_point lap = Clock::now();
  const StepResult result = rule_.finishStep();
  double wait = 0;
  addLap(lap, wait);
  waitSeconds_ += wait * lanes_.count();
  return result;
}

void Trainer::runLane(int index, Step step, const NextBatch& batches) {
  Lane& lane = lane_[static_cast<std::size_t>(index)];
  LanePlace& place = activity_.lane(index);
  Clock::time_point lap = Clock::now();
  lane.model->refreshWeights({index, lanes_.count()});
  lanes_.meet();
  addLap(lap, lane.seconds.forward);
  const GrainRange mine = rule_.grainsOf(index);
  for (GrainIndex grain = mine.first; grain < mine.last; ++grain) {
    place.set(LanePlace::Doing::Reading);
    const Batch batch = batches(index, step, grain);
    activity_.beat();
    addLap(lap, lane.seconds.data);
    place.set(LanePlace::Doing::Forward);
    rule_.reportLoss(grain, lane.model->forward(batch));
    addLap(lap, lane.seconds.forward);
    place.set(LanePlace::Doing::Backward);
    lane.model->backward(rule_.sinkFor(grain));
    activity_.beat();
    addLap(lap, lane.seconds.backward);
  }
  place.set(LanePlace::Doing::Nothing);
}

PhaseSeconds Trainer::seconds() const {
  PhaseSeconds sum{.wait = waitSeconds_};
  for (const Lane& lane : lane_) {
    sum.data += lane.seconds.data;
    sum.forward += lane.seconds.forward;
    sum.backward += lane.seconds.backward;
  }
  return sum;
}

}  // namespace cohort
