// A cluster whose members are named by role and address, as TensorFlow's are, before it is known whether they fit together.
// Private to cluster.
#pragma once

#include <string>
#include <vector>

#include "cluster/address.h"
#include "cluster/cluster_map.h"

namespace cohort {

struct NamedHosts {
  std::vector<Address> servers{};
  std::vector<Address> workers{};  // the chief first
  std::vector<Address> evaluators{};
};

// Member `me` is not set yet. UsageErrors that name `source` where there is no worker, or two have the same address.
ClusterMap clusterOf(const NamedHosts& hosts, const std::string& source);

// The place of this role's number among the members; it exists.
std::size_t placeOf(const ClusterMap& cluster, Role role, int index);

}  // namespace cohort
