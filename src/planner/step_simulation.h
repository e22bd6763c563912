// One training step in modelled time. Nothing is computed but times: see docs/architecture.md for the step itself.
//
// The model. A worker's *lanes* compute their *units* (grains; rounds of a group where layers are split by model) one after the other,
// each task of a unit as long as the CostModel says, divided by the speed of the host. A *collective* of a divided layer leaves as
// messages from lane i to lanes i of the group when its value is complete, and stops the lane where what it brings is first read. When all
// units of a *sum* have closed all pieces of a *bucket* (about 4 MB of the arena, in backward order), its slices go to their owners
// through the worker's *communication thread* while the lanes compute on. The owner applies its slice when the last sum of all workers
// is there: its lane, if that was its own, otherwise its communication thread. Then the new weights of the slice go to all others.
// Messages wait for the thread and the hosts' cables in the order in which they are sent (timeline.h), those of one bucket or collective
// beginning with the next worker's. The step ends when
// the last lane is done and the last weights have come.
//
// Left out: adding sums, packing and unpacking messages (an update's seconds may include the former), losses and wishes,
// reading samples, refreshing prepared weights, that an owner takes others' sums a few buckets at a time, and that
// communication threads need cores.
#pragma once

#include "graph/graph.h"
#include "parallel/strategy.h"
#include "planner/cost_model.h"
#include "planner/step_forecast.h"
#include "planner/worker_network.h"

namespace cohort {

// `network` has the mesh's workers: member m of group g is worker g * mesh.model + m. A pure function. UsageError where the costs do not
// know a node, a layer cannot be divided so, or grains are too few.
StepForecast simulateStep(const Graph& graph, const Strategy& strategy, const Mesh& mesh,
                          const StepSettings& settings, const CostModel& costs, const WorkerNetwork& network);

}  // namespace cohort
