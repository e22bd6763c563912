// Where a process of a cluster listens: HOST:PORT. An IPv6 address is written in brackets: [::1]:2222.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

inline constexpr int kLargestPort = 65'535;

struct Address {
  std::string host;
  int port = 0;

  bool operator==(const Address&) const = default;
};

std::string toText(const Address& address);

// UsageErrors that name `source`.
Address parseAddress(std::string_view text, const std::string& source);

// "a:2222,n[1-4]:2222": each may be a host list (host_list.h). UsageErrors that name `source`.
std::vector<Address> parseAddressList(std::string_view text, const std::string& source);

}  // namespace cohort
