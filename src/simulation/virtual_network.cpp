#include "simulation/virtual_network.h"

#include <algorithm>
#include <utility>

namespace cohort {

VirtualNetwork::VirtualNetwork(const ClusterModel& model, const ClusterPlaces& places, EventQueue& queue)
    : queue_(queue),
      sameHost_{.latency = virtualTime(model.sameHost.latency), .bandwidth = model.sameHost.bandwidth} {
  for (const ClusterPlaces::Host& host : places.hosts) {
    cables_.push_back({.latency = virtualTime(host.cable.latency), .bandwidth = host.cable.bandwidth});
  }
}

VirtualTime VirtualNetwork::latency(int from, int to) const {
  if (from == to) return sameHost_.latency;
  return std::max(cables_[static_cast<std::size_t>(from)].latency,
                  cables_[static_cast<std::size_t>(to)].latency);
}

VirtualTime VirtualNetwork::transferTime(std::uint64_t bytes, double bandwidth) {
  return bandwidth == 0 ? 0 : virtualTime(static_cast<double>(bytes) / bandwidth);
}

void VirtualNetwork::send(int from, int to, std::uint64_t bytes, EventQueue::Action arrived) {
  sentBytes_ += bytes;
  if (from == to) {
    queue_.after(sameHost_.latency + transferTime(bytes, sameHost_.bandwidth), std::move(arrived));
    return;
  }
  Cable& sender = cables_[static_cast<std::size_t>(from)];
  const VirtualTime leaves = std::max(queue_.now(), sender.outFree);
  sender.outFree = leaves + transferTime(bytes, sender.bandwidth);
  const VirtualTime travels = latency(from, to);
  const VirtualTime lastByte = sender.outFree + travels;
  // The receiver's turn is decided when it comes there: another's may leave later and come first.
  queue_.at(leaves + travels, [this, to, bytes, lastByte, arrived = std::move(arrived)]() mutable {
    Cable& receiver = cables_[static_cast<std::size_t>(to)];
    const VirtualTime begins = std::max(queue_.now(), receiver.inFree);
    receiver.inFree = std::max(begins + transferTime(bytes, receiver.bandwidth), lastByte);
    queue_.at(receiver.inFree, std::move(arrived));
  });
}

VirtualTime VirtualNetwork::ringTime(const std::vector<int>& hosts, std::uint64_t bytes) const {
  const auto count = static_cast<VirtualTime>(hosts.size());
  if (count < 2) return 0;
  VirtualTime slowest = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const int from = hosts[i];
    const int to = hosts[(i + 1) % hosts.size()];
    const std::uint64_t part = (bytes + hosts.size() - 1) / hosts.size();
    const VirtualTime transfer =
        from == to ? transferTime(part, sameHost_.bandwidth)
                   : std::max(transferTime(part, cables_[static_cast<std::size_t>(from)].bandwidth),
                              transferTime(part, cables_[static_cast<std::size_t>(to)].bandwidth));
    slowest = std::max(slowest, latency(from, to) + transfer);
  }
  return 2 * (count - 1) * slowest;
}

}  // namespace cohort
