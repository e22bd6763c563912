#include "cluster/address.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/host_list.h"
#include "cluster/words.h"

namespace cohort {
namespace {

bool isNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool isIpv6Character(char c) {
  // Also an IPv4 address at its end, and a zone: fe80::1%eth0.
  return isNameCharacter(c) || c == ':' || c == '%';
}

// What brackets enclose: an IPv6 address, not a host list's numbers.
bool isIpv6(std::string_view text) {
  return text.starts_with('[') && text.substr(0, text.find(']')).find(':') != std::string_view::npos;
}

bool isHost(std::string_view host) {
  if (host.size() > kLongestHost) return false;
  if (!isIpv6(host)) return !host.empty() && std::ranges::all_of(host, isNameCharacter);
  return host.ends_with(']') && std::ranges::all_of(host.substr(1, host.size() - 2), isIpv6Character);
}

}  // namespace

std::string toText(const Address& address) {
  const bool isBare = address.host.find(':') == std::string::npos;
  return isBare ? fmt::format("{}:{}", address.host, address.port)
                : fmt::format("[{}]:{}", address.host, address.port);
}

Address parseAddress(std::string_view text, const std::string& source) {
  const std::size_t bracket = isIpv6(text) ? text.find(']') : 0;
  const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) {
    throw UsageError(
        fmt::format("{} has {} without a port; write HOST:PORT, such as node1:2222", source, inQuotes(text)));
  }
  std::string_view host = text.substr(0, colon);
  if (!isHost(host)) {
    throw UsageError(
        fmt::format("{} has {}, where no host's name comes before the port; write HOST:PORT, such as "
                    "node1:2222 or [::1]:2222",
                    source, inQuotes(text)));
  }
  const std::optional<int> port = wholeNumber(text.substr(colon + 1));
  if (!port || *port < 1 || *port > kLargestPort) {
    throw UsageError(fmt::format("{} has {}, whose port is {}; ports are numbers from 1 to {}", source,
                                 inQuotes(text), inQuotes(text.substr(colon + 1)), kLargestPort));
  }
  if (isIpv6(host)) host = host.substr(1, host.size() - 2);
  return {.host = std::string(host), .port = *port};
}

std::vector<Address> parseAddressList(std::string_view text, const std::string& source) {
  std::vector<Address> addresses;
  for (const std::string_view item : splitHostList(text)) {
    const std::vector<std::string> hosts =
        isIpv6(item) ? std::vector<std::string>{std::string(item)} : expandHostList(item, source);
    if (hosts.empty()) {
      throw UsageError(
          fmt::format("{} {} has an address missing; write HOST:PORT,HOST:PORT", source, inQuotes(text)));
    }
    if (addresses.size() + hosts.size() > kMostHosts)
      throw UsageError(fmt::format("{} names more than {} addresses; give fewer", source, kMostHosts));
    for (const std::string& host : hosts) addresses.push_back(parseAddress(host, source));
  }
  return addresses;
}

}  // namespace cohort
