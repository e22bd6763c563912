#include "doctor/own_facts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "doctor/memory.h"

namespace cohort {
namespace {

constexpr std::size_t kHashDigits = 8;  // for people

std::string programText(const std::string& version) {
  std::string hash = "unreadable";
  try {
    const std::string program = readWholeFile("/proc/self/exe");
    hash = hashBytes(std::as_bytes(std::span(program))).substr(0, kHashDigits);
  } catch (const IoError&) {
    // A program that cannot be compared is told as such, and is another than those that can.
  }
  return fmt::format("{}, {}", version, hash);
}

// Changes with every start of a machine, and no two have the same.
std::string machineText() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

// Empty where it is free.
std::string portError(int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return "";
  // As servers do: what a dead one has left behind for a minute is no hindrance.
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return systemMessage(errno);
  }
  return "";
}

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

}  // namespace

std::vector<HostAddress> hostAddresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, FreeInterfaces> owner(list);
  std::vector<HostAddress> found;
  std::vector<HostAddress> loopback;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      // Those that mean something on one cable only need its name too.
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      ::inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
    } else {
      continue;
    }
    const bool isLoopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    (isLoopback ? loopback : found).push_back({.interface = entry->ifa_name, .address = text.data()});
  }
  return found.empty() ? loopback : found;
}

MemberFacts ownFacts(const OwnPlace& place) {
  const Memory memory = availableMemory();
  MemberFacts facts{.name = place.name,
                    .workers = place.workers,
                    .host = hostName(),
                    .machine = machineText(),
                    .addresses = hostAddresses(),
                    .program = programText(place.version),
                    .instructionSet = place.instructionSet,
                    .onlineCores = onlineCores(),
                    .cores = allowedCores(),
                    .memoryBytes = memory.total,
                    .freeBytes = memory.free,
                    .busyPorts = place.busyPorts};
  for (const int port : place.ports) {
    const std::string error = portError(port);
    if (!error.empty()) facts.busyPorts.push_back(fmt::format("{} ({})", port, error));
  }
  return facts;
}

}  // namespace cohort
