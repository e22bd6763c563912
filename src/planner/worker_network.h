// How workers are connected and how fast their hosts are, as plain values: measured, or of a cluster that need not exist.
//
// Workers of different hosts talk over their hosts' cables; between two hosts the larger latency counts, and a message passes both
// cables. A bandwidth of 0 is unlimited, as everywhere in cluster/cluster_model.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/cluster_model.h"

namespace cohort {

struct WorkerNetwork {
  struct Host {
    LinkModel cable;
    double speed = 1;  // what takes a second on a host of speed 1 takes 1 / speed here
    bool operator==(const Host&) const = default;
  };
  std::vector<Host> hosts;
  std::vector<int> hostOf;  // by worker
  LinkModel sameHost;

  int workers() const { return static_cast<int>(hostOf.size()); }
  const Host& host(int worker) const {
    return hosts[static_cast<std::size_t>(hostOf[static_cast<std::size_t>(worker)])];
  }
  // Between two workers, if nobody else talks.
  LinkModel link(int from, int to) const;
  // The largest latency and the smallest bandwidth between any two of them.
  LinkModel slowestLink(std::span<const int> among) const;

  bool operator==(const WorkerNetwork&) const = default;
};

// A host for each worker, all connected alike.
WorkerNetwork evenNetwork(int workers, const LinkModel& link);
// As a virtual run has it; jitter, stragglers and failures are left out. UsageErrors that name `source`.
WorkerNetwork networkOf(const ClusterModel& model, int workers, const std::string& source);

// bytes / bandwidth.
double transferSeconds(std::size_t bytes, double bandwidth);

}  // namespace cohort
