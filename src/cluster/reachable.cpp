#include "cluster/reachable.h"

#include <algorithm>

#include <fmt/format.h>

namespace cohort {
namespace {

// For both of them.
bool isSameNet(const NetworkAddress& one, const NetworkAddress& other) {
  const int prefix = std::max(one.prefix, other.prefix);
  if (prefix <= 0) return true;
  return (one.address ^ other.address) >> (32 - std::min(prefix, 32)) == 0;
}

bool hasAddress(const HostAddresses& host, std::uint32_t address) {
  return std::ranges::count(host.addresses, address, &NetworkAddress::address) > 0;
}

bool reaches(const HostAddresses& host, const NetworkAddress& address) {
  return std::ranges::any_of(host.addresses,
                             [&](const NetworkAddress& own) { return isSameNet(own, address); });
}

}  // namespace

std::string toText(const NetworkAddress& address) {
  const std::uint32_t a = address.address;
  return fmt::format("{}.{}.{}.{}", a >> 24, (a >> 16) & 255, (a >> 8) & 255, a & 255);
}

std::string reachableAddress(const std::vector<HostAddresses>& hosts, std::size_t which) {
  const HostAddresses& own = hosts[which];
  const auto isOther = [&](const HostAddresses& host) { return host.host != own.host; };
  if (std::ranges::all_of(hosts, [&](const HostAddresses& host) { return host.addresses == own.addresses; }))
    return "127.0.0.1";
  const NetworkAddress* best = nullptr;
  std::ptrdiff_t most = -1;
  for (const NetworkAddress& address : own.addresses) {
    const bool isShared = std::ranges::any_of(
        hosts, [&](const HostAddresses& host) { return isOther(host) && hasAddress(host, address.address); });
    if (isShared) continue;
    const std::ptrdiff_t near = std::ranges::count_if(
        hosts, [&](const HostAddresses& host) { return isOther(host) && reaches(host, address); });
    if (near <= most) continue;
    most = near;
    best = &address;
  }
  return best == nullptr ? own.host : toText(*best);
}

}  // namespace cohort
