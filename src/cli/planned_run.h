// What a configuration asks of the hosts that it will run on. Private to cli.
#pragma once

#include "doctor/facts.h"
#include "train/run.h"

namespace cohort {

// From the shapes alone, in no time: the memory of parameters, gradients and what the optimizer keeps; no activations.
PlannedRun roughPlan(const RunContext& context, const RunConfig& config);

// With the memory of `lanes` lanes as the compiler plans it, which takes as long as that does; it chooses this process's
// instruction set. Bytes stay unknown of networks that are somebody's own code, and where only the dataset knows the
// images' size.
PlannedRun compiledPlan(const RunContext& context, const RunConfig& config, int lanes);

}  // namespace cohort
