#include "train/activity.h"

#include <utility>

#include <fmt/format.h>

namespace cohort {

void Activity::nameLayers(std::vector<std::string> names) {
  const std::lock_guard lock(mutex_);
  layers_ = std::move(names);
}

Activity::Snapshot Activity::now() const {
  Snapshot snapshot{.phase = phase_,
                    .step = step_,
                    .isWaiting = waiting_,
                    .server = server_,
                    .beats = beats_.load(std::memory_order_relaxed)};
  for (const LanePlace& lane : lanes_) {
    snapshot.lane = lane.now();
    if (snapshot.lane.doing != LanePlace::Doing::Nothing) break;
  }
  return snapshot;
}

// " conv2", or nothing where the layer is not known.
std::string Activity::layerText(const LanePlace::Snapshot& lane) const {
  const std::lock_guard lock(mutex_);
  const auto layer = static_cast<std::size_t>(lane.layer);
  return lane.layer >= 0 && layer < layers_.size() ? " " + layers_[layer] : "";
}

std::string Activity::textOf(const Snapshot& snapshot) const {
  if (snapshot.server >= 0 && snapshot.phase != Phase::Ending)
    return fmt::format("waiting for server {}", snapshot.server);
  switch (snapshot.phase) {
    case Phase::Meeting:
      return "meeting its group";
    case Phase::Preparing:
      return "preparing";
    case Phase::Evaluation:
      return "evaluating";
    case Phase::Checkpoint:
      return "writing a checkpoint";
    case Phase::Ending:
      return "ending";
    case Phase::Steps:
      break;
  }
  switch (snapshot.lane.doing) {
    case LanePlace::Doing::Nothing:
      break;
    case LanePlace::Doing::Reading:
      return "reading samples";
    case LanePlace::Doing::Forward:
      return fmt::format("in forward{}", layerText(snapshot.lane));
    case LanePlace::Doing::Backward:
      return fmt::format("in backward{}", layerText(snapshot.lane));
    case LanePlace::Doing::Updating:
      return fmt::format("updating{}", layerText(snapshot.lane));
  }
  return "computing";
}

}  // namespace cohort
