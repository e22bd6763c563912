#include "cli/center_options.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/un.h>

#include "base/error.h"
#include "train/run_config.h"

namespace cohort {
namespace {

constexpr std::string_view kUnix = "unix:";

void requireAddress(const std::string& address, const std::string& flag) {
  if (address.starts_with(kUnix) && address.size() > kUnix.size()) {
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    const std::size_t length = address.size() - kUnix.size();
    if (length <= kLongest) return;
    throw UsageError(fmt::format(
        "the socket's path {} is too long: it has {} bytes, and the system takes {}; use a folder "
        "with a shorter name (TMPDIR for a run's own)",
        address.substr(kUnix.size()), length, kLongest));
  }
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

bool isControl(unsigned char c) {
  return c < 0x20 || c == 0x7f;
}

}  // namespace

bool isPrivateAddress(const std::string& address) {
  if (address.starts_with(kUnix)) return true;
  std::string host = address.substr(0, address.rfind(':'));
  if (host == "localhost") return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

void keepLargeBlocks() {
  constexpr int kLarge = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kLarge);
  mallopt(M_TOP_PAD, 16 << 20);
}

std::optional<MeshCredentials> meshCredentials(const std::optional<Credentials>& credentials) {
  if (!credentials) return std::nullopt;
  return MeshCredentials{.authority = credentials->authority,
                         .certificate = credentials->certificate,
                         .key = credentials->key,
                         .name = kRunHostName};
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

std::optional<Credentials> credentialsFor(const std::vector<std::string>& addresses, const std::string& file,
                                          bool insecure) {
  if (!file.empty()) return readCredentials(file);
  const auto foreign = std::ranges::find_if_not(addresses, isPrivateAddress);
  if (foreign == addresses.end() || insecure) return std::nullopt;
  throw UsageError(
      fmt::format("{} is on another machine: give --credentials FILE, which the first server has made in its "
                  "job directory "
                  "(or --insecure, where its servers have that too)",
                  *foreign));
}

std::string printable(std::string_view text) {
  const bool isText = isUtf8(text);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    // In UTF-8, 0x80 to 0x9f are control characters too.
    const bool isSecondSet = byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) < 0xa0;
    if (isControl(byte(i)) || (!isText && byte(i) >= 0x80)) {
      shown += fmt::format("\\x{:02x}", byte(i));
    } else if (isSecondSet) {
      shown += fmt::format("\\x{:02x}", byte(++i));
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace cohort
