// A training run in virtual time, all of whose workers are in this process: the same job directory as any run's, with virtual seconds
// beside the steps.
#pragma once

#include "train/run.h"

namespace cohort {

// Trains until the configuration's length is reached (its time, too, is virtual) or `stop` is set. The job directory has no run yet: a virtual one
// is never gone on with. Evaluations and checkpoints take no virtual time.
RunSummary runVirtually(const RunContext& context, RunConfig config, const JobDirectory& job,
                        const StopFlag& stop, std::chrono::steady_clock::time_point processStart,
                        RunObserver& observer, const WorkerPlace& place);

}  // namespace cohort
