// Which cores belong together, by hwloc.
#include <memory>

#include <hwloc.h>

#include "base/error.h"
#include "base/host.h"

namespace cohort {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Topology newTopology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  return Topology(topology);
}

int numberOf(hwloc_obj_t object) {
  return object == nullptr ? 0 : static_cast<int>(object->logical_index);
}

// Its largest: the one that neighbours share, where any is shared.
int cacheOf(hwloc_topology_t topology, hwloc_obj_t core) {
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, level, core);
    if (cache != nullptr) return numberOf(cache);
  }
  return 0;
}

int nodeOf(hwloc_topology_t topology, hwloc_obj_t core) {
  const int first = core->nodeset == nullptr ? -1 : hwloc_bitmap_first(core->nodeset);
  return first < 0 ? 0 : numberOf(hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(first)));
}

std::vector<int> threadsIn(hwloc_const_cpuset_t set) {
  std::vector<int> threads;
  for (int thread = hwloc_bitmap_first(set); thread >= 0; thread = hwloc_bitmap_next(set, thread)) {
    threads.push_back(thread);
  }
  return threads;
}

// Empty where the system does not tell.
std::vector<Core> coresIn(const Topology& topology) {
  std::vector<Core> cores;
  if (!topology || hwloc_topology_load(topology.get()) != 0) return cores;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr;) {
    cores.push_back(
        {.package = numberOf(hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, core)),
         .node = nodeOf(topology.get(), core),
         .cache = cacheOf(topology.get(), core),
         .threads = threadsIn(core->cpuset)});
  }
  return cores;
}

}  // namespace

std::vector<Core> hostCores() {
  static const std::vector<Core> kAll = coresIn(newTopology());  // a machine does not change
  return allowedOf(kAll, allowedCores());
}

std::vector<Core> describedCores(const std::string& description) {
  const Topology topology = newTopology();
  COHORT_CHECK(topology && hwloc_topology_set_synthetic(topology.get(), description.c_str()) == 0,
               "a description of cores that hwloc reads");
  return coresIn(topology);
}

}  // namespace cohort
