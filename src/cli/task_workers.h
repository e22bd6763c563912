// The workers of one MPI task: the process itself, or several on its threads (--workers-per-task). Private to cli.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "comm/mpi_transport.h"

namespace cohort {

// Calls train(workers) as each of the task's workers, of which there are `each` in every task: on this thread where it is one. Returns the largest of
// what they return. `train` throws nothing.
int asTaskWorkers(const MpiSession& session, int each, double patience,
                  const std::function<int(Communicator& workers)>& train);

// UsageError where --workers-per-task is given (not 0) to a process that no launcher has started, or one that joins a center alone.
void requireTask(int workersPerTask, bool isJoined);

// UsageError where it is given to a member of a cluster by name.
void requireNoTaskWorkers(int workersPerTask);

}  // namespace cohort
