#include "train/same_configuration.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "train/config_file.h"

namespace cohort {
namespace {

// The first lines of two texts that differ, without spaces around them.
std::pair<std::string, std::string> firstDifference(const std::string& a, const std::string& b) {
  std::istringstream left(a);
  std::istringstream right(b);
  std::string l;
  std::string r;
  do {
    if (!std::getline(left, l)) l.clear();
    if (!std::getline(right, r)) r.clear();
  } while (l == r && (left || right));
  const auto trimmed = [](const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? std::string() : text.substr(begin);
  };
  return {trimmed(l), trimmed(r)};
}

}  // namespace

std::string sharedConfiguration(const RunConfig& config) {
  RunConfig shared = config;
  shared.threads = 0;
  shared.dataThreads = -1;
  shared.pin = true;
  shared.dataDir.clear();
  shared.chaos.clear();
  shared.maxRestarts = 0;
  shared.elastic = false;
  shared.stallTimeout = 1;
  shared.recoveryWait = shared.snapshotEvery = 0;
  shared.journal = true;
  if (shared.sync != "backup") {
    shared.workers = 1;
    shared.groups = 0;
  }
  return toYaml(shared);
}

void requireSharedConfiguration(const RunConfig& own, const std::string& shared) {
  const std::string mine = sharedConfiguration(own);
  if (mine == shared) return;
  const auto [here, there] = firstDifference(mine, shared);
  throw UsageError(fmt::format(
      "this worker has '{}' where the run has '{}'; start all workers with the same settings", here, there));
}

void requireSameConfiguration(const Channel& workers, const RunConfig& config) {
  const std::string own = sharedConfiguration(config);
  const std::vector<std::string> all = workers.gather(own, "its configuration");
  std::string difference;
  for (std::size_t rank = 1; rank < all.size() && difference.empty(); ++rank) {
    if (all[rank] == own) continue;
    const auto [here, there] = firstDifference(own, all[rank]);
    difference =
        fmt::format("worker {} has '{}' where worker 0 has '{}'; start all workers with the same settings",
                    rank, there, here);
  }
  difference = workers.broadcast(difference, "the comparison of configurations");
  if (!difference.empty()) throw UsageError(difference);
}

}  // namespace cohort
