#include "launch/center_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 1 << 20;
constexpr std::string_view kBegin = "center";
constexpr std::string_view kEnd = ".txt";

std::string fileName(int first) {
  return first == 0 ? fmt::format("{}{}", kBegin, kEnd) : fmt::format("{}-{}{}", kBegin, first, kEnd);
}

// The number of its first server; nothing where it is another file.
std::optional<int> firstOf(const std::string& name) {
  if (name == fileName(0)) return 0;
  const std::size_t begin = kBegin.size() + 1;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= begin + kEnd.size())
    return std::nullopt;
  int first = -1;
  const char* end = name.data() + name.size() - kEnd.size();
  const auto [stopped, error] = std::from_chars(name.data() + begin, end, first);
  if (error != std::errc() || stopped != end || first < 1 || name != fileName(first)) return std::nullopt;
  return first;
}

void addFile(CenterPlaces& center, const fs::path& file, int first) {
  std::istringstream text(readWholeFile(file, kLongest));
  std::string addresses;
  std::getline(text, addresses);
  std::istringstream parts(addresses);
  for (std::string address; std::getline(parts, address, ','); ++first) {
    const bool isKnown = std::ranges::count(center.servers, first, &CenterPlaces::Server::index) > 0;
    if (!isKnown) center.servers.push_back({first, address});
  }
  std::string credentials;
  if (std::getline(text, credentials) && center.credentials.empty()) center.credentials = credentials;
}

}  // namespace

CenterFile::CenterFile(const fs::path& folder, int first, const std::vector<std::string>& addresses,
                       const fs::path& credentials)
    : file_(folder / fileName(first)) {
  writeWholeFile(file_, fmt::format("{}\n{}", fmt::join(addresses, ","),
                                    credentials.empty() ? "" : credentials.string() + "\n"));
}

void CenterFile::remove() const noexcept {
  std::error_code ignored;
  fs::remove(file_, ignored);
}

CenterPlaces readCenterFiles(const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> files;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    if (const std::optional<int> first = firstOf(entry.path().filename().string()))
      files.emplace_back(*first, entry.path());
  }
  std::ranges::sort(files);
  CenterPlaces center;
  for (const auto& [first, file] : files) addFile(center, file, first);
  std::ranges::sort(center.servers, {}, &CenterPlaces::Server::index);
  return center;
}

}  // namespace cohort
