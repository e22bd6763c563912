#include "doctor/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cohort {
namespace {

namespace fs = std::filesystem;

// No limit is as large as this; version 1 has its "none" as a number.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

// What the kernel tells of itself has no size beforehand.
std::string textOf(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::int64_t> numberIn(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// "NAME value" or "NAME: value", a line of many.
std::int64_t entryOf(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name)) return numberIn(line.substr(name.size())).value_or(0);
    at = end + 1;
  }
  return 0;
}

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;  // the entry of memory.stat
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file "};

// Of this group alone.
std::optional<Memory> limitOf(const fs::path& group, const GroupFiles& files) {
  const std::optional<std::int64_t> limit = numberIn(textOf(group / files.limit));  // version 2 says "max"
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const std::int64_t used = numberIn(textOf(group / files.used)).value_or(0);
  const std::int64_t cache = entryOf(textOf(group / "memory.stat"), files.cache);
  return Memory{.total = *limit, .free = std::clamp<std::int64_t>(*limit - used + cache, 0, *limit)};
}

void tighten(std::optional<Memory>& least, const std::optional<Memory>& other) {
  if (!other) return;
  if (!least) least = other;
  least = Memory{.total = std::min(least->total, other->total), .free = std::min(least->free, other->free)};
}

}  // namespace

Memory machineMemory(std::string_view text) {
  return {.total = 1024 * entryOf(text, "MemTotal:"), .free = 1024 * entryOf(text, "MemAvailable:")};
}

std::optional<Memory> groupMemory(std::string_view text, const fs::path& root) {
  std::optional<Memory> least;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line(text.substr(at, end - at));
    at = end + 1;
    // HIERARCHY:CONTROLLERS:/PATH
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool isSecond = controllers == ",,";
    if (!isSecond && controllers.find(",memory,") == std::string::npos) continue;
    const fs::path base = isSecond ? root : root / "memory";
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      tighten(least, limitOf(base / group, isSecond ? kVersion2 : kVersion1));
      if (group.empty()) break;
    }
  }
  return least;
}

Memory availableMemory() {
  const Memory machine = machineMemory(textOf("/proc/meminfo"));
  const std::optional<Memory> group = groupMemory(textOf("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (!group) return machine;
  return {.total = std::min(machine.total, group->total), .free = std::min(machine.free, group->free)};
}

}  // namespace cohort
