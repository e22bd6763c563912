#include "cluster/cluster_model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

using Distribution = ComputeModel::Distribution;

struct Named {
  Distribution distribution;
  std::string_view name;
  double mostJitter;
};

// Eight uniform numbers reach 4.9 deviations, one 1.74; a least time may be nothing.
constexpr std::array kDistributions{
    Named{Distribution::Normal, "normal", 0.2},
    Named{Distribution::Uniform, "uniform", 0.57},
    Named{Distribution::Exponential, "exponential", 1},
};

const Named& named(Distribution distribution) {
  return *std::ranges::find(kDistributions, distribution, &Named::distribution);
}

ClusterPlaces::Host makeHost(const ClusterModel& model, const HostModel& host, std::string name) {
  return {.name = std::move(name),
          .kind = host.name,
          .speed = host.speed,
          .cable = {.latency = host.latency.value_or(model.links.latency),
                    .bandwidth = host.bandwidth.value_or(model.links.bandwidth)}};
}

// How many of `all` are on each host, where some say it themselves.
std::vector<int> spread(const std::vector<std::optional<int>>& wanted, int all, const char* what,
                        const std::string& source) {
  int given = 0;
  int open = 0;
  for (const std::optional<int>& count : wanted) {
    given += count.value_or(0);
    if (!count) ++open;
  }
  if (given > all || (given < all && open == 0)) {
    throw UsageError(
        fmt::format("the hosts of {} have places for {} {}{}, and there are {}; change their "
                    "'{}', or leave it out of some: they share what is left",
                    source, given, what, given == 1 ? "" : "s", all, fmt::format("{}s", what)));
  }
  std::vector<int> counts;
  int left = all - given;
  for (const std::optional<int>& count : wanted) {
    // The first ones get the odd ones.
    const int sharers = std::max(1, open);
    const int share = count ? *count : (left + sharers - 1) / sharers;
    if (!count) {
      left -= share;
      --open;
    }
    counts.push_back(share);
  }
  return counts;
}

void requireDifferentNames(const ClusterPlaces& places, const std::string& source) {
  std::set<std::string> names;
  for (const ClusterPlaces::Host& host : places.hosts) {
    if (names.insert(host.name).second) continue;
    throw UsageError(fmt::format("two hosts of {} are called {}; give one another name", source, host.name));
  }
}

void placeOnHosts(const ClusterModel& model, int workers, int servers, const std::string& source,
                  ClusterPlaces& places) {
  std::vector<std::optional<int>> wantedWorkers;
  std::vector<std::optional<int>> wantedServers;
  std::vector<std::optional<int>> cores;
  for (const HostModel& host : model.hosts) {
    for (int i = 0; i < host.count; ++i) {
      places.hosts.push_back(
          makeHost(model, host, host.count == 1 ? host.name : fmt::format("{}{}", host.name, i)));
      wantedWorkers.push_back(host.workers);
      wantedServers.push_back(host.servers);
      cores.push_back(host.cores);
    }
  }
  requireDifferentNames(places, source);
  const std::vector<int> workersOf = spread(wantedWorkers, workers, "worker", source);
  const std::vector<int> serversOf = spread(wantedServers, servers, "server", source);
  for (std::size_t i = 0; i < places.hosts.size(); ++i) {
    places.hosts[i].workers = workersOf[i];
    places.hosts[i].cores = cores[i].value_or(workersOf[i]);
    places.workers.insert(places.workers.end(), static_cast<std::size_t>(workersOf[i]), static_cast<int>(i));
    places.servers.insert(places.servers.end(), static_cast<std::size_t>(serversOf[i]), static_cast<int>(i));
  }
}

// Everybody on a host of its own.
void placeAlone(const ClusterModel& model, int workers, int servers, ClusterPlaces& places) {
  for (int i = 0; i < workers + servers; ++i) {
    const bool isWorker = i < workers;
    const HostModel host{.name = isWorker ? "worker" : "server"};
    places.hosts.push_back(makeHost(model, host, fmt::format("{}{}", host.name, isWorker ? i : i - workers)));
    places.hosts.back().workers = isWorker ? 1 : 0;
    places.hosts.back().cores = isWorker ? 1 : 0;
    (isWorker ? places.workers : places.servers).push_back(i);
  }
}

void requireServersStay(const ClusterPlaces& places, const FailureModel& failure, const std::string& source) {
  if (failure.who.host.empty()) return;
  for (const int server : places.servers) {
    const ClusterPlaces::Host& host = places.hosts[static_cast<std::size_t>(server)];
    if (host.name != failure.who.host && host.kind != failure.who.host) continue;
    throw UsageError(
        fmt::format("{} lets host {} fail, where a server is; failures are workers': give the server another "
                    "host ('servers'), or name workers",
                    source, failure.who.host));
  }
}

}  // namespace

double mostJitter(Distribution distribution) {
  return named(distribution).mostJitter;
}

std::string_view distributionName(Distribution distribution) {
  return named(distribution).name;
}

std::optional<Distribution> distributionCalled(std::string_view name) {
  const auto* const found = std::ranges::find(kDistributions, name, &Named::name);
  if (found == kDistributions.end()) return std::nullopt;
  return found->distribution;
}

std::vector<int> ClusterPlaces::chosen(const WorkerChoice& who, const std::string& source) const {
  std::vector<int> found;
  for (int worker = 0; worker < static_cast<int>(workers.size()); ++worker) {
    const Host& host = hosts[static_cast<std::size_t>(workers[static_cast<std::size_t>(worker)])];
    const bool isWorker = !who.worker || *who.worker == worker;
    const bool isHost = who.host.empty() || host.name == who.host || host.kind == who.host;
    if (isWorker && isHost) found.push_back(worker);
  }
  if (!found.empty()) return found;
  if (who.worker) {
    throw UsageError(fmt::format("{} names worker {}, and there are workers 0 to {}", source, *who.worker,
                                 workers.size() - 1));
  }
  throw UsageError(fmt::format("{} names the workers of host '{}', and there are none", source, who.host));
}

ClusterPlaces placeOn(const ClusterModel& model, int workers, int servers, const std::string& source) {
  ClusterPlaces places;
  if (model.hosts.empty()) {
    placeAlone(model, workers, servers, places);
  } else {
    placeOnHosts(model, workers, servers, source, places);
  }
  for (const StragglerModel& straggler : model.stragglers) places.chosen(straggler.who, source);
  for (const FailureModel& failure : model.failures) {
    requireServersStay(places, failure, source);
    places.chosen(failure.who, source);
  }
  return places;
}

}  // namespace cohort
