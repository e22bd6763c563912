#include "launch/network.h"

#include <bit>
#include <cerrno>
#include <memory>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"

namespace cohort {
namespace {

std::uint32_t numberOf(const sockaddr* address) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
}

}  // namespace

std::vector<NetworkAddress> networkAddresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<NetworkAddress> addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const bool isUp = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!isUp || one->ifa_addr == nullptr || one->ifa_netmask == nullptr ||
        one->ifa_addr->sa_family != AF_INET)
      continue;
    addresses.push_back({.interface = one->ifa_name,
                         .address = numberOf(one->ifa_addr),
                         .prefix = std::popcount(numberOf(one->ifa_netmask))});
  }
  return addresses;
}

FreePort FreePort::any() {
  FreePort port;
  port.socket_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!port.socket_ || ::bind(port.socket_.get(), generic, size) != 0 ||
      ::getsockname(port.socket_.get(), generic, &size) != 0) {
    throw IoError(fmt::format("no port is free to listen at: {}", systemMessage(errno)));
  }
  port.number_ = ntohs(address.sin_port);
  return port;
}

}  // namespace cohort
