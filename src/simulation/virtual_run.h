// A run in virtual time: many workers in one process, with real gradients and modelled hours. One class for each kind of rule; a new rule is
// another, over the same queue, network and times.
//
// Used by one thread. Everything is decided by the setup, the cluster and the seed: the same bits for any number of real threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/float_buffer.h"
#include "base/trainable.h"
#include "cluster/cluster_model.h"
#include "optim/shard.h"
#include "simulation/event_queue.h"
#include "simulation/virtual_network.h"
#include "simulation/virtual_outcome.h"
#include "simulation/work_times.h"
#include "simulation/workbench.h"

namespace cohort {

// Where it runs.
struct VirtualPlace {
  ClusterModel cluster;
  std::string source = "the cluster";  // the cluster's file, for messages
  int workers = 1;
  int groupSize = 1;  // workers in a row that are one member of a center together
  int servers = 0;
  std::uint64_t seed = 0;
  std::int64_t grainSamples = 1;
};

class VirtualRun {
 public:
  virtual ~VirtualRun() = default;

  struct Progress {
    Step done = 0;         // steps
    LossSum loss;          // of those since the last
    bool isCommon = true;  // the weights are the run's: all workers', or the center's
  };
  // Goes on until more steps are done; nothing where all are. UsageError where the cluster's failures let it never end.
  virtual std::optional<Progress> advance() = 0;
  // No new steps from now on.
  virtual void halt() = 0;
  virtual VirtualTime now() const = 0;

  // Weights and slots as they are now, after a progress that is common. Slots: the center's, or worker 0's.
  virtual void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) = 0;
  virtual VirtualOutcome outcome() const = 0;
};

// What every kind of rule has in common: who is where, and what happened to each worker.
class VirtualCluster {
 public:
  explicit VirtualCluster(const VirtualPlace& where);

  struct Tally {
    std::int64_t works = 0;
    VirtualTime computing = 0;
    VirtualTime waiting = 0;
    VirtualTime away = 0;
  };

  const VirtualPlace place;
  const ClusterPlaces places;
  const WorkTimes times;
  EventQueue queue;
  VirtualNetwork network;
  std::vector<Tally> tallies;  // by worker
  VirtualOutcome counts;       // without classes

  int hostOf(int worker) const { return places.workers[static_cast<std::size_t>(worker)]; }
  int hostOfServer(int server) const { return places.servers[static_cast<std::size_t>(server)]; }
  Tally& tally(int worker) { return tallies[static_cast<std::size_t>(worker)]; }
  VirtualOutcome outcome() const;
  // The worker's, which is made where it is missing.
  VirtualOutcome::Class& classOf(VirtualOutcome& outcome, int worker) const;
  void lose(int worker);
  // By a worker that has lost a work, or failed before it could have any. UsageError where that happens so often since a step was done that it
  // is hopeless.
  void failInVain(int worker);
  void hasDone() { inVain_ = 0; }

 private:
  std::int64_t inVain_ = 0;
};

// In tree order, as workers of any run add them.
LossSum sumOfLosses(const GrainTree& tree, const std::vector<std::optional<LossSum>>& grains);

}  // namespace cohort
