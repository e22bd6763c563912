// What a configuration says of groups of workers, each one member of a center.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "train/run_config.h"

namespace cohort {
namespace {

// "1, 2, 4", for 4.
std::string divisorsOf(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return fmt::format("{}", fmt::join(divisors, ", "));
}

}  // namespace

int groupSize(const RunConfig& config) {
  if (config.sync != "group" || config.groups == 0) return 1;
  return static_cast<int>(std::max<std::int64_t>(1, config.workers / config.groups));
}

const std::string& centerRule(const RunConfig& config) {
  return config.sync == "group" ? config.between : config.sync;
}

void requireGroups(const RunConfig& config) {
  if (config.sync != "group") return;
  const char* const workers = config.virtualWorkers > 0 ? "--virtual" : "--workers";
  if (config.groups == 0) {
    throw UsageError(
        fmt::format("--sync group needs the number of groups: --groups {} would do for {} worker{}",
                    divisorsOf(config.workers), config.workers, config.workers == 1 ? "" : "s"));
  }
  if (config.groups > config.workers) {
    throw UsageError(
        fmt::format("{} groups need a worker each, and there {} {}; --groups {} would do, or {} {}",
                    config.groups, config.workers == 1 ? "is" : "are", config.workers,
                    divisorsOf(config.workers), workers, config.groups));
  }
  if (config.workers % config.groups != 0) {
    throw UsageError(
        fmt::format("{} workers do not divide into {} groups of as many; --groups {} would do, or {} {}",
                    config.workers, config.groups, divisorsOf(config.workers), workers,
                    (config.workers / config.groups + 1) * config.groups));
  }
  if (groupSize(config) > config.grains) {
    throw UsageError(
        fmt::format("the {} workers of a group need a grain each, and a batch of {} has {}; give more "
                    "--groups, or more --grains",
                    groupSize(config), config.batchSize, config.grains));
  }
  if (config.histograms && groupSize(config) > 1 && exchanges(config)) {
    throw UsageError(fmt::format(
        "--histograms needs a gradient that one worker has whole, which groups by --between {} have "
        "not; leave it out, or use --between async",
        config.between));
  }
}

}  // namespace cohort
