// At which address the other hosts of a run reach one of them, by what each knows of itself. Names are no help: a host often has
// its own for a loopback address, and others may not know it at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort {

// An IPv4 address of an interface, and the net behind it.
struct NetworkAddress {
  std::string interface = {};
  std::uint32_t address = 0;  // 10.0.0.1 is 0x0a000001
  int prefix = 24;            // bits of the net

  bool operator==(const NetworkAddress&) const = default;
};

// "10.0.0.1"
std::string toText(const NetworkAddress& address);

// What a host says of itself; loopback addresses are no part of it.
struct HostAddresses {
  std::string host;
  std::vector<NetworkAddress> addresses = {};

  bool operator==(const HostAddresses&) const = default;
};

// The first address of hosts[which] whose net most of the others share. One that several hosts have (that of a bridge for
// containers, say) leads nowhere. Where hosts have all addresses in common they are one machine, which reaches itself by loopback; where
// nothing else is left, the host's name.
std::string reachableAddress(const std::vector<HostAddresses>& hosts, std::size_t which);

}  // namespace cohort
