#include "cli/center_options.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <malloc.h>

#include "base/error.h"

namespace cohort {
namespace {

void requireAddress(const std::string& address, const std::string& flag) {
  if (address.starts_with("unix:") && address.size() > 5) return;
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos && colon > 0) {
    const char* end = address.data() + address.size();
    const auto [stopped, error] = std::from_chars(address.data() + colon + 1, end, port);
    if (error != std::errc() || stopped != end) port = -1;
  }
  if (port < 0 || port > 65535)
    throw UsageError(fmt::format("{} takes HOST:PORT (or unix:PATH), not '{}'", flag, address));
}

}  // namespace

bool isPrivateAddress(const std::string& address) {
  if (address.starts_with("unix:")) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with("127.") || host == "localhost" || host == "[::1]";
}

void keepLargeBlocks() {
  constexpr int kLarge = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kLarge);
  mallopt(M_TOP_PAD, 16 << 20);
}

std::vector<std::string> parseAddresses(const std::string& text, const std::string& flag) {
  std::vector<std::string> addresses;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    requireAddress(part, flag);
    addresses.push_back(part);
  }
  if (addresses.empty()) throw UsageError(fmt::format("{} needs the address of a server: HOST:PORT", flag));
  return addresses;
}

}  // namespace cohort
