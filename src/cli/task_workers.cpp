#include "cli/task_workers.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/task_transport.h"

namespace cohort {

int asTaskWorkers(const MpiSession& session, int each, double patience,
                  const std::function<int(Communicator& workers)>& train) {
  requireSameTasks(each);
  if (each == 1) {
    Communicator workers(mpiTransport(session), patience);
    return train(workers);
  }
  TaskHub hub(session, each);
  std::vector<std::unique_ptr<Communicator>> workers;
  workers.reserve(static_cast<std::size_t>(each));
  for (int k = 0; k < each; ++k) {
    workers.push_back(std::make_unique<Communicator>(hub.transport(k), patience));
  }
  std::vector<int> codes(workers.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(workers.size());
    for (std::size_t k = 0; k < workers.size(); ++k) {
      threads.emplace_back([&, k] { codes[k] = train(*workers[k]); });
    }
  }
  return *std::ranges::max_element(codes);
}

void requireTask(int workersPerTask, bool isJoined) {
  if (workersPerTask == 0 || (startedByMpi() && !isJoined)) return;
  throw UsageError(fmt::format(
      "--workers-per-task {} is for tasks that srun or mpirun has started, and this process is none; {}",
      workersPerTask,
      isJoined ? "with --join it is one worker, and others join in the same way"
               : fmt::format("--workers {} starts workers here", workersPerTask)));
}

void requireNoTaskWorkers(int workersPerTask) {
  if (workersPerTask == 0) return;
  throw UsageError(
      fmt::format("--workers-per-task {} is for tasks of srun or mpirun; start a process for each worker, or "
                  "give one all cores as its lanes (--threads)",
                  workersPerTask));
}

}  // namespace cohort
