#include "train/group_follower.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "train/center_computer.h"

namespace cohort {
namespace {

class GroupFollower {
 public:
  GroupFollower(const RunContext& context, RunConfig config, const StopFlag& stop, RunObserver& observer,
                Clock::time_point processStart, const CenterPlace& place)
      : config_(std::move(config)),
        stop_(stop),
        observer_(observer),
        activity_(place.activity),
        processStart_(processStart),
        computer_(context, config_,
                  {.workers = *place.group, .activity = place.activity, .cores = place.cores}),
        target_(targetStep(config_, computer_.samples())) {
    computer_.begin(nullptr, context, {});
  }

  RunSummary train();

 private:
  void tellStart(Step step);
  void compute(const GroupOrder& order);

  RunSummary left();

  RunConfig config_;
  const StopFlag& stop_;
  RunObserver& observer_;
  Activity& activity_;
  Clock::time_point processStart_;
  CenterComputer computer_;
  Step target_;
  std::optional<Step> startStep_;
  Step ownSteps_ = 0;
  Step lastTold_ = 0;
  RunSummary summary_;
};

void GroupFollower::tellStart(Step step) {
  startStep_ = step;
  const RunObserver::Started started{.network = config_.network,
                                     .dataset = config_.dataset,
                                     .parameters = computer_.layout().weightCount(),
                                     .batchSize = config_.batchSize,
                                     .grains = config_.grains,
                                     .workers = static_cast<int>(config_.workers),
                                     .lanes = computer_.lanes().count(),
                                     .startStep = step,
                                     .notes = {},
                                     .isShown = false};
  observer_.started(started);
  summary_.startupSeconds = secondsSince(processStart_);
  activity_.enter(Activity::Phase::Steps);
}

void GroupFollower::compute(const GroupOrder& order) {
  activity_.finishStep(order.done);
  if (!startStep_) tellStart(order.done);
  const StepResult result = computer_.compute(order.work, order.isBeginning, order.following);
  ++ownSteps_;
  const Step interval = logInterval(config_, target_);
  if (ownSteps_ > 1 && lastTold_ / interval == order.done / interval) return;
  observer_.worked({.ownSteps = ownSteps_, .step = order.done, .loss = result.loss.meanLoss()});
  lastTold_ = order.done;
}

RunSummary GroupFollower::left() {
  summary_.interrupted = true;
  summary_.ending = Ending::Left;
  return summary_;
}

RunSummary GroupFollower::train() {
  computer_.prepare();
  summary_.isChief = false;
  for (;;) {
    const GroupOrder order = computer_.orders().take();
    switch (order.kind) {
      case GroupOrder::Kind::Compute:
        if (stop_) return left();
        compute(order);
        break;
      case GroupOrder::Kind::Open:
        computer_.forgetPlans();
        break;
      case GroupOrder::Kind::End:
        summary_.interrupted = order.isInterrupted;
        summary_.ending = order.isInterrupted ? Ending::Stopped : Ending::Done;
        activity_.enter(Activity::Phase::Ending);
        break;
      case GroupOrder::Kind::Leave:
        if (stop_) return left();
        throw PeerError("the first worker of its group has left the run");
      case GroupOrder::Kind::Over:
        return summary_;
    }
  }
}

}  // namespace

RunSummary followGroup(const RunContext& context, RunConfig config, const StopFlag& stop,
                       Clock::time_point processStart, RunObserver& observer, const CenterPlace& place) {
  GroupFollower follower(context, std::move(config), stop, observer, processStart, place);
  try {
    return follower.train();
  } catch (...) {
    place.group->halt();  // others may still send to what goes now
    throw;
  }
}

}  // namespace cohort
