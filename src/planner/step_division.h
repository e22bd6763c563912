// Who computes what in a step, and who sums what with whom: what train, parallel and sync would decide. Private to planner.
//
// A *unit* is what a lane computes at once: a grain, or a round of a group. A *sum* is the part of a bucket's gradient that a worker
// adds up before it sends it: one for each node of the grains' tree that its grains make, or one for all its rounds.
#pragma once

#include <vector>

#include "base/grain_tree.h"
#include "parallel/partition.h"
#include "parallel/strategy.h"
#include "planner/step_forecast.h"
#include "sync/bucket_plan.h"

namespace cohort {

struct StepDivision {
  // Workers that sum the same parameters, bucket by bucket.
  struct Exchange {
    std::vector<int> workers;
    BucketPlan buckets;
    int sums = 0;  // of all workers, for each bucket
    bool isPrivate = false;
  };
  // A worker's place in an exchange.
  struct Part {
    int exchange = 0;
    int place = 0;                 // among its workers
    std::vector<int> sumOfUnit{};  // by the worker's unit
    std::vector<int> unitsIn{};    // by sum
  };
  struct Worker {
    int member = 0;
    int group = 0;  // its first worker
    std::vector<GrainRange> lanes{};
    std::vector<Part> parts{};
  };
  // A stretch of a node's gradient in a bucket.
  struct Close {
    int part = 0;  // of the worker
    int bucket = 0;
    int pieces = 0;
  };

  std::vector<LocalGraph> members;  // what each member of a group computes; one where all do the same
  std::vector<Exchange> exchanges;
  std::vector<Worker> workers;
  std::vector<std::vector<std::vector<Close>>> closes;  // by member and node of its graph
};

// UsageError where there are fewer grains than workers and none of them is shared in rounds, or a layer cannot be divided so.
StepDivision divideStep(const Graph& graph, const Strategy& strategy, const Mesh& mesh,
                        const StepSettings& settings);

// Of one worker's step.
MemoryForecast memoryOf(const StepDivision& division, int worker, const StepSettings& settings);

}  // namespace cohort
