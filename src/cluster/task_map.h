// Where the tasks of a launcher are, and which of them serve. SLURM and mpirun know tasks and ranks, no roles: those are given
// here, by one rule for both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_map.h"

namespace cohort {

struct PlacedTask {
  std::string host;
  int node = 0;        // hosts are numbered in the order in which the ranks name them
  int localIndex = 0;  // among the tasks of its host

  bool operator==(const PlacedTask&) const = default;
};

// There is at least one task.
struct TaskMap {
  std::vector<PlacedTask> tasks;  // by rank
  int me = 0;                     // this process's rank

  const PlacedTask& self() const { return tasks[static_cast<std::size_t>(me)]; }
  // By node.
  std::vector<std::string> hosts() const;
  bool operator==(const TaskMap&) const = default;
};

// From each rank's host: what SLURM's variables tell, and under mpirun what workers tell each other.
TaskMap tasksOnHosts(const std::vector<std::string>& hostOfRank, int me);

// For rules without a center: all are workers, numbered by rank.
ClusterMap withoutServers(const TaskMap& tasks);

// The ranks that serve where nobody says which: all of the first node, where there are more nodes; else the first.
std::vector<int> defaultServerTasks(const TaskMap& tasks);

// "2": the first two; "0,3" or "0-1": these ranks, so that rank 2 alone is "2-2". UsageErrors that name `source`; one of them
// where a rank does not exist.
std::vector<int> parseServerTasks(const std::string& text, const TaskMap& tasks, const std::string& source);

// The ranks that serve: as `text` says, the first ones where so many `servers` are wanted, otherwise the default ones. UsageErrors
// that name --server-tasks; one of them where it contradicts `servers` (0: nobody says).
std::vector<int> chooseServerTasks(const TaskMap& tasks, const std::optional<std::string>& text, int servers);

// For rules with a center: these ranks are servers, numbered in this order, all others workers, numbered by rank. A server's
// port is `firstPort` plus its local index, so that no two of a host share one; without a first one, each takes any that is free.
// UsageError where no worker is left, or a port is too large.
ClusterMap withServers(const TaskMap& tasks, const std::vector<int>& serverRanks,
                       std::optional<int> firstPort = std::nullopt);

}  // namespace cohort
