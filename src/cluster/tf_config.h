// TF_CONFIG, the variable by which TensorFlow's launchers (and Kubernetes operators) tell a process its cluster:
//
//   {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]},
//    "task": {"type": "worker", "index": 0}}
//
// The chief, or master as it was called, is worker 0, and the list of workers follows; ps are servers. An evaluator is outside
// of the training, and usually not in the cluster's lists. Other keys, such as "environment", tell nothing about places and
// are ignored.
#pragma once

#include <string>

#include "cluster/cluster_map.h"

namespace cohort {

// UsageErrors that name TF_CONFIG and what to change in it.
ClusterMap parseTfConfig(const std::string& text);

}  // namespace cohort
