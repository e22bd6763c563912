// How much memory there is for a process: the machine's, or what its control group leaves of it. Private to doctor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace cohort {

struct Memory {
  std::int64_t total = 0;
  std::int64_t free = 0;

  bool operator==(const Memory&) const = default;
};

// Of the text of /proc/meminfo; zeros where it is none.
Memory machineMemory(std::string_view text);

// The tightest limit of the control groups that `text`, that of /proc/self/cgroup, names, and of those around them; nothing
// where none is limited. `root` is /sys/fs/cgroup. What a group holds as a cache of files counts as free.
std::optional<Memory> groupMemory(std::string_view text, const std::filesystem::path& root);

// For this process.
Memory availableMemory();

}  // namespace cohort
