// Groups of consecutive workers, and where the workers of each meet. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_map.h"

namespace cohort {

// Tells each worker's group; all workers divide into groups of this size.
void nameGroups(ClusterMap& cluster, int groupSize);

// Where the others of its group could reach a worker.
struct WorkerDoor {
  std::string host = {};
  std::string socket = {};   // by those of the same host
  std::string address = {};  // by all
};

// By worker: where it is reached. Groups of one host meet by sockets.
std::vector<std::string> meetingPlaces(const std::vector<WorkerDoor>& workers, int groupSize);

// Those of the workers of this worker's group, in their order; `places` are by worker.
std::vector<std::string> groupOf(const std::vector<std::string>& places, int worker, int groupSize);

// The port of a task's k-th worker, where ports of a host begin with `firstPort`: none is that of another worker, or of a server (see
// `withServers`). UsageError where it is too large.
int groupPort(const ClusterMap& cluster, const Member& task, int k, int firstPort);

}  // namespace cohort
