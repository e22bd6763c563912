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

// Losses are summed in the grains' tree order too.
LossSum sumOf(const GrainTree& tree, const std::vector<LossSum>& losses, int node) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return losses[static_cast<std::size_t>(n.grains.first)];
  LossSum sum = sumOf(tree, losses, n.left);
  return sum += sumOf(tree, losses, n.right);
}

}  // namespace

Trainer::Trainer(Lanes& lanes, const std::vector<Trainable*>& models, SyncRule& rule, Prefetcher& batches,
                 int grains)
    : lanes_(lanes),
      rule_(rule),
      batches_(batches),
      losses_(static_cast<std::size_t>(grains)),
      tree_(grains) {
  COHORT_CHECK(static_cast<int>(models.size()) == lanes.count(), "every lane has a model");
  for (Trainable* model : models) {
    lane_.push_back({model, {}});
  }
}

LossSum Trainer::step(Step step) {
  rule_.beginStep(step);
  lanes_.run([this, step](int lane) { runLane(lane, step); });
  rule_.finishStep();
  return sumOf(tree_, losses_, 0);
}

void Trainer::runLane(int index, Step step) {
  Lane& lane = lane_[static_cast<std::size_t>(index)];
  Clock::time_point lap = Clock::now();
  lane.model->refreshWeights({index, lanes_.count()});
  lanes_.meet();
  addLap(lap, lane.seconds.forward);
  const GrainRange mine = rule_.grainsOf(index);
  for (GrainIndex grain = mine.first; grain < mine.last; ++grain) {
    const Batch batch = batches_.next(index);
    addLap(lap, lane.seconds.data);
    COHORT_CHECK(batch.position / batch.globalSize == step, "the samples are another step's");
    losses_[static_cast<std::size_t>(grain)] = lane.model->forward(batch);
    addLap(lap, lane.seconds.forward);
    lane.model->backward(rule_.sinkFor(grain));
    addLap(lap, lane.seconds.backward);
  }
}

PhaseSeconds Trainer::seconds() const {
  PhaseSeconds sum;
  for (const Lane& lane : lane_) {
    sum.data += lane.seconds.data;
    sum.forward += lane.seconds.forward;
    sum.backward += lane.seconds.backward;
  }
  return sum;
}

}  // namespace cohort
