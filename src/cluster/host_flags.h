// A cluster that is named by flags, as programs for TensorFlow have them: all processes get the same lists, and each its own
// place in them.
#pragma once

#include <optional>
#include <string>

#include "cluster/cluster_map.h"

namespace cohort {

// --ps-hosts, --worker-hosts, --job-name and --task-index, as far as they were given. Evaluators are in no list: all that they
// need is the run's folder.
struct HostFlags {
  std::optional<std::string> psHosts = {};      // servers: "a:2222,n[1-4]:2222"; empty: none
  std::optional<std::string> workerHosts = {};  // the first is the chief
  std::optional<std::string> jobName = {};      // ps, worker or evaluator
  std::optional<int> taskIndex = {};

  bool areGiven() const { return psHosts || workerHosts || jobName || taskIndex; }
};

// UsageErrors that name the flag to change.
ClusterMap clusterOf(const HostFlags& flags);

}  // namespace cohort
