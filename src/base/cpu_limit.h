// The processor time that a container or a job may use, whichever cores it is on: the quota of its control groups.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cohort {

struct CpuLimit {
  double cpus = 0;      // seconds of processor time in a second
  std::string group{};  // the folder that says so; all in it share the limit

  bool operator==(const CpuLimit&) const = default;
};

// The strictest of this process's groups and those above them, of version 1 or 2; nothing where none limits it. `root` is "/" but for tests.
std::optional<CpuLimit> cpuLimit(const std::filesystem::path& root = "/");

// Lanes that one of `sharers` may keep busy: at least one.
int lanesWithin(const CpuLimit& limit, int sharers);

}  // namespace cohort
