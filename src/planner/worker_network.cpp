#include "planner/worker_network.h"

#include <algorithm>
#include <numeric>

namespace cohort {
namespace {

// Of two bandwidths, where 0 is unlimited.
double slowerOf(double one, double other) {
  if (one == 0 || other == 0) return std::max(one, other);
  return std::min(one, other);
}

}  // namespace

LinkModel WorkerNetwork::link(int from, int to) const {
  if (hostOf[static_cast<std::size_t>(from)] == hostOf[static_cast<std::size_t>(to)]) return sameHost;
  const LinkModel& one = host(from).cable;
  const LinkModel& other = host(to).cable;
  return {.latency = std::max(one.latency, other.latency),
          .bandwidth = slowerOf(one.bandwidth, other.bandwidth)};
}

LinkModel WorkerNetwork::slowestLink(std::span<const int> among) const {
  LinkModel slowest;
  for (const int from : among) {
    for (const int to : among) {
      if (from == to) continue;
      const LinkModel between = link(from, to);
      slowest.latency = std::max(slowest.latency, between.latency);
      slowest.bandwidth = slowerOf(slowest.bandwidth, between.bandwidth);
    }
  }
  return slowest;
}

WorkerNetwork evenNetwork(int workers, const LinkModel& link) {
  WorkerNetwork network;
  network.hosts.assign(static_cast<std::size_t>(workers), {.cable = link});
  network.hostOf.resize(static_cast<std::size_t>(workers));
  std::iota(network.hostOf.begin(), network.hostOf.end(), 0);
  return network;
}

WorkerNetwork networkOf(const ClusterModel& model, int workers, const std::string& source) {
  const ClusterPlaces places = placeOn(model, workers, 0, source);
  WorkerNetwork network{.hosts = {}, .hostOf = places.workers, .sameHost = model.sameHost};
  for (const ClusterPlaces::Host& host : places.hosts) {
    network.hosts.push_back({.cable = host.cable, .speed = host.speed});
  }
  return network;
}

double transferSeconds(std::size_t bytes, double bandwidth) {
  return bandwidth == 0 ? 0 : static_cast<double>(bytes) / bandwidth;
}

}  // namespace cohort
