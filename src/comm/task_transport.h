// Several workers in each MPI task, as threads of its process: between workers of a task messages are copies, between tasks they
// go by MPI. Worker k of task t is number t * K + k.
//
// Each of the task's workers sends through an MPI communicator of its own, and a tag also says for whom of the receiving task a message is. One thread at a time
// calls MPI.
#pragma once

#include <memory>

#include "comm/mpi_transport.h"
#include "comm/transport.h"

namespace cohort {

// By all tasks of the session: UsageError where they were not told the same number.
void requireSameTasks(int workersPerTask);

// Outlives its transports; the session outlives it.
class TaskHub {
 public:
  // By all tasks, with the same number; UsageError where MPI cannot tell so many apart.
  TaskHub(const MpiSession& session, int workersPerTask);
  ~TaskHub();
  TaskHub(const TaskHub&) = delete;
  TaskHub& operator=(const TaskHub&) = delete;

  // Of the task's worker k. When one of them withdraws, no message of the whole task moves by MPI any more: the task is about to end.
  std::unique_ptr<Transport> transport(int k);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
