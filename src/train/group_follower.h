// A run as the other workers of a group see it: the first one speaks with the center, and they compute what that one tells them.
// Private to train.
#pragma once

#include "base/clock.h"
#include "train/run.h"

namespace cohort {

// One that is asked to leave does so before it computes more; that the first one has left is a PeerError: its group waits for it to come back.
RunSummary followGroup(const RunContext& context, RunConfig config, const StopFlag& stop,
                       Clock::time_point processStart, RunObserver& observer, const CenterPlace& place);

}  // namespace cohort
