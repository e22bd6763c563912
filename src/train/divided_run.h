// What a worker of a divided run has instead of a whole network. Private to train.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/channel.h"
#include "parallel/partition.h"
#include "sync/divided_plan.h"
#include "train/division.h"
#include "train/run.h"

namespace cohort {

struct DividedRun {
  Division division;
  LocalGraph local;
  DividedPlan plan;
  Rounds rounds;
  int lanes = 1;  // of every worker: the same lanes of all work together
};

// The part of the division's worker in a network, on one lane.
DividedRun divide(const Graph& graph, const Division& division, int grains);

// By all workers, who were told the same (otherwise a UsageError on all): nothing where every layer is split by data. `threads` that this
// worker may have as lanes.
std::unique_ptr<DividedRun> divideRun(const RunContext& context, const RunConfig& config,
                                      const Channel& workers, int threads);

// What to know of such a run beforehand.
std::vector<std::string> notesOf(const DividedRun& run, const RunConfig& config);

}  // namespace cohort
