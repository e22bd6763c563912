// cohort train as a member of a cluster that is named by flags or TF_CONFIG: through a center, or, by rules that have none, among
// workers that are connected with each other.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/error.h"
#include "base/host.h"
#include "center/credentials.h"
#include "cli/center_member.h"
#include "cli/center_options.h"
#include "cli/ground_check.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cluster/address.h"
#include "cluster/group_places.h"
#include "comm/mesh_transport.h"
#include "launch/folders.h"
#include "launch/worker_cores.h"
#include "train/checkpoint.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLook{100};

// ---- what both ways need

// By rules without a center. Through one, all workers would send whole gradients where each has a part of the network, or seldom
// meets the others.
bool meetsInMesh(const RunConfig& config) {
  return !hasCenter(config) && (config.sync != "bsp" || splitsModel(config));
}

Request namedRequest(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster) {
  Request request = requestOf(context, arguments, workersOf(cluster));
  if (request.directory.empty()) {
    throw UsageError(
        "give --job-dir, the same for all processes of the cluster: they must not each name a folder of "
        "their own");
  }
  const std::size_t named = cluster.count(Role::Server);
  if (meetsInMesh(request.config) && named > 0) {
    throw UsageError(fmt::format(
        "{} has no servers: its workers meet directly; leave the cluster's ps hosts out, or use bsp by data, "
        "async, ssp or backup",
        splitsModel(request.config) ? "--parallel" : fmt::format("--sync {}", request.config.sync)));
  }
  const auto servers = static_cast<std::size_t>(request.config.servers);
  if (isGiven(arguments, "servers") && servers != 0 && servers != std::max<std::size_t>(1, named)) {
    throw UsageError(
        fmt::format("--servers {}, but the cluster's lists name {}; leave --servers out", servers, named));
  }
  return request;
}

std::vector<std::string> addressesOf(const ClusterMap& cluster, Role role) {
  std::vector<std::string> addresses;
  for (const Member& member : cluster.members) {
    if (member.role == role && member.port)
      addresses.push_back(toText(Address{.host = member.host, .port = *member.port}));
  }
  return addresses;
}

// What lets this process in; empty where that is nothing. The first one makes it in the folder; where not all share that, somebody must
// have brought it.
fs::path admissionOf(const TrainArguments& arguments, const Request& request,
                     const std::vector<std::string>& addresses, bool isFirst) {
  if (!arguments.credentials.empty()) return arguments.credentials;
  if (!needCredentials(addresses, arguments)) return {};
  fs::path file = credentialsFile(request.directory);
  if (isFirst) {
    makeFolder(request.directory);
    makeWhereMissing(file);
  }
  const Clock::time_point start = Clock::now();
  std::error_code unreadable;
  while (!fs::exists(file, unreadable)) {
    if (secondsSince(start) > request.config.recoveryWait) {
      throw UsageError(fmt::format(
          "{} is not there after {:.0f} s: the first process makes it in its job directory; let all "
          "processes "
          "share that folder, or give all of them --credentials FILE (cohort credentials FILE makes one)",
          file.string(), request.config.recoveryWait));
    }
    std::this_thread::sleep_for(kLook);
  }
  return file;
}

// ---- through a center

// Those who share this host divide its cores, where nobody has given each its own.
OwnedCores namedCores(const ClusterMap& cluster) {
  const WorkerCores own = workerCores();
  if (static_cast<int>(own.allowed.size()) < own.online) return ownCores();
  const Member& self = cluster.self();
  std::vector<WorkerCores> sharers;
  int before = 0;
  for (const Member& member : cluster.members) {
    if (member.role != Role::Worker || member.host != self.host) continue;
    if (member.index < self.index) ++before;
    sharers.push_back(own);
  }
  return sharers.empty() ? ownCores() : coresOfWorker(sharers, before);
}

// Where there is no server, the chief is one.
std::vector<std::string> serverAddresses(const ClusterMap& cluster) {
  std::vector<std::string> servers = addressesOf(cluster, Role::Server);
  if (servers.empty()) servers.push_back(addressesOf(cluster, Role::Worker).front());
  return servers;
}

// Where this worker's group meets; nothing where it is in none.
std::vector<std::vector<std::string>> ownGroup(const ClusterMap& cluster, const RunConfig& config) {
  const Member& self = cluster.self();
  if (self.role != Role::Worker || groupSize(config) == 1) return {};
  return {groupOf(addressesOf(cluster, Role::Worker), self.index, groupSize(config))};
}

int trainThroughCenter(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster,
                       const Request& request) {
  blockSignals();
  const Member& self = cluster.self();
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  checkOwnGround({.name = nameOf(self), .workers = self.role == Role::Worker ? 1 : 0}, context,
                 request.config, console);
  const std::vector<std::string> addresses = serverAddresses(cluster);
  std::vector<std::vector<std::string>> groups = ownGroup(cluster, request.config);
  std::vector<std::string> all = addresses;
  for (const std::vector<std::string>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return superviseMember(
      context, arguments,
      {.cluster = cluster,
       .addresses = addresses,
       .directory = request.directory,
       .credentials = admissionOf(arguments, request, all, isFirstServer(cluster)),
       .stop = CenterShare::Stop::Leave,
       .cores = {namedCores(cluster)},
       .groups = std::move(groups),
       .job = std::make_unique<JobDirectory>(request.directory, JobDirectory::Role::Joined)});
}

// ---- among connected workers

MeshPlace meshPlace(const TrainArguments& arguments, const ClusterMap& cluster, const Request& request) {
  const std::vector<std::string> addresses = addressesOf(cluster, Role::Worker);
  const int rank = cluster.self().index;
  const fs::path credentials = admissionOf(arguments, request, addresses, rank == 0);
  return {.rank = rank,
          .addresses = addresses,
          .listen = listenAddress(addresses[static_cast<std::size_t>(rank)]),
          .credentials = credentials.empty() ? std::nullopt : meshCredentials(readCredentials(credentials)),
          .patience = request.config.recoveryWait};
}

Step lastCheckpoint(const fs::path& directory) {
  const std::vector<CheckpointFile> all = listCheckpoints(directory / "checkpoints");
  return all.empty() ? -1 : all.back().step;
}

// Nobody supervises: where a worker is gone, the others meet again, and wait for it to come back.
int trainInMesh(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster,
                const Request& request) {
  const StopFlag& stop = stopOnSignals();
  const MeshPlace place = meshPlace(arguments, cluster, request);
  setCrashWorker(place.rank);
  Console console(stdout, stderr, terminalOptions(place.rank == 0 ? arguments.verbosity : Verbosity::Quiet));
  int fruitless = 0;  // losses in a row between which there was no new checkpoint
  Step before = lastCheckpoint(request.directory);
  for (;;) {
    try {
      Communicator workers(connectMesh(place), patienceOf(request.config));
      return trainAmong(context, arguments, workers, console);
    } catch (const PeerError& error) {
      console.endProgress();
      const Step now = lastCheckpoint(request.directory);
      fruitless = now > before ? 1 : fruitless + 1;
      before = now;
      const std::string where = now < 0 ? "the beginning" : fmt::format("the checkpoint of step {}", now);
      if (stop) {
        console.warn(fmt::format("{}, while the run was asked to stop; the same command goes on from {}",
                                 error.what(), where));
        return kResume;
      }
      if (fruitless > request.config.maxRestarts) {
        throw PeerError(fmt::format("{}; given up after {} times without a new checkpoint (--max-restarts)",
                                    error.what(), request.config.maxRestarts));
      }
      console.warn(fmt::format("{}; meeting the others again, to go on from {}", error.what(), where));
    }
  }
}

}  // namespace

int trainAsNamed(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster) {
  const Request request = namedRequest(context, arguments, cluster);
  return meetsInMesh(request.config) ? trainInMesh(context, arguments, cluster, request)
                                     : trainThroughCenter(context, arguments, cluster, request);
}

}  // namespace cohort
