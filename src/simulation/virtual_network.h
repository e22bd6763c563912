// The hosts' cables. Each is two queues, one for what leaves its host and one for what comes; what is sent while one is busy waits.
//
//   it leaves      when its sender's cable is free, for bytes / bandwidth there
//   it begins to come   one latency later, or when its receiver's cable is free
//   it has come    bytes / bandwidth after that, and not before its last byte has left and travelled
//
// Between two hosts the larger latency counts. What stays on a host takes latency + bytes / bandwidth of `same-host`, and waits for
// nothing. Words (who is to compute what, what is asked for) cost the latency alone.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster_model.h"
#include "simulation/event_queue.h"

namespace cohort {

class VirtualNetwork {
 public:
  // Everything outlives this.
  VirtualNetwork(const ClusterModel& model, const ClusterPlaces& places, EventQueue& queue);

  VirtualTime latency(int from, int to) const;
  void send(int from, int to, std::uint64_t bytes, EventQueue::Action arrived);
  // All of these exchange `bytes` in a ring, in this order: 2(N - 1) times each gives 1/N of them to the next (Patarasuk and Yuan 2009), and
  // the slowest pair of neighbours is waited for each time. Returns how long that takes; nothing is sent.
  VirtualTime ringTime(const std::vector<int>& hosts, std::uint64_t bytes) const;

  std::uint64_t sentBytes() const { return sentBytes_; }
  void count(std::uint64_t bytes) { sentBytes_ += bytes; }

 private:
  struct Cable {
    VirtualTime latency = 0;
    double bandwidth = 0;
    VirtualTime outFree = 0;
    VirtualTime inFree = 0;
  };
  static VirtualTime transferTime(std::uint64_t bytes, double bandwidth);

  EventQueue& queue_;
  Cable sameHost_;
  std::vector<Cable> cables_;
  std::uint64_t sentBytes_ = 0;
};

}  // namespace cohort
