#include "launch/worker_cores.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "cluster/number_list.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

Json jsonOf(const WorkerCores& cores) {
  Json json = {
      {"host", cores.host}, {"online", cores.online}, {"allowed", cores.allowed}, {"bound", cores.isBound}};
  if (cores.limit) json["limit"] = {{"cpus", cores.limit->cpus}, {"group", cores.limit->group}};
  return json;
}

WorkerCores coresOf(const Json& json) {
  WorkerCores cores{.host = json.at("host"),
                    .online = json.at("online"),
                    .allowed = json.at("allowed"),
                    .isBound = json.at("bound")};
  if (json.contains("limit")) {
    const Json& limit = json.at("limit");
    cores.limit = {.cpus = limit.at("cpus"), .group = limit.at("group")};
  }
  return cores;
}

}  // namespace

WorkerCores workerCores() {
  return {.host = hostName(),
          .online = onlineCores(),
          .allowed = allowedCores(),
          // Open MPI's mpirun says that it did.
          .isBound = std::getenv("OMPI_MCA_orte_bound_at_launch") != nullptr,
          .limit = cpuLimit()};
}

std::vector<WorkerCores> gatherCores(const Channel& workers) {
  Json list = Json::array();
  for (const std::string& text : workers.gather(jsonOf(workerCores()).dump(), "its cores")) {
    list.push_back(Json::parse(text));
  }
  std::vector<WorkerCores> all;
  for (const Json& json : Json::parse(workers.broadcast(list.dump(), "the workers' cores"))) {
    all.push_back(coresOf(json));
  }
  return all;
}

OwnedCores coresOfWorker(const std::vector<WorkerCores>& all, int rank, const std::vector<Core>& cores) {
  const WorkerCores& own = all[static_cast<std::size_t>(rank)];
  int before = 0;
  int sharers = 0;
  int limited = 0;
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (all[other].host != own.host) continue;
    if (own.limit && all[other].limit && all[other].limit->group == own.limit->group) ++limited;
    if (all[other].allowed != own.allowed) continue;
    if (other < static_cast<std::size_t>(rank)) ++before;
    ++sharers;
  }
  OwnedCores owned = coresOfPart(cores, before, sharers);
  if (own.limit) owned.lanes = std::min(owned.lanes, lanesWithin(*own.limit, limited));
  return owned;
}

OwnedCores coresOfWorker(const std::vector<WorkerCores>& all, int rank) {
  return coresOfWorker(all, rank, hostCores());
}

std::string ownedCoresText(const OwnedCores& owned) {
  return fmt::format("{}:{}:{}", owned.lanes, owned.cores, numberListText(owned.threads));
}

OwnedCores parseOwnedCores(const std::string& text, const std::string& source) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) {
    throw UsageError(fmt::format("{} is LANES:CORES:LIST, not '{}'", source, text));
  }
  const std::string threads = text.substr(second + 1);
  return {.threads = threads.empty() ? std::vector<int>() : parseNumberList(threads, source),
          .cores = parseNumberList(text.substr(first + 1, second - first - 1), source).front(),
          .lanes = std::max(1, parseNumberList(text.substr(0, first), source).front())};
}

std::string bindingNote(const std::vector<WorkerCores>& all, int rank, int threads) {
  const WorkerCores& own = all[static_cast<std::size_t>(rank)];
  if (!own.isBound) return "";
  if (threads > static_cast<int>(own.allowed.size())) {
    return fmt::format(
        "mpirun binds worker {} to {} core{}, too few for its {} lanes; give mpirun --bind-to none", rank,
        own.allowed.size(), own.allowed.size() == 1 ? "" : "s", threads);
  }
  std::set<int> used;
  for (const WorkerCores& other : all) {
    if (other.host == own.host) used.insert(other.allowed.begin(), other.allowed.end());
  }
  if (threads > 0 || static_cast<int>(used.size()) >= own.online) return "";
  return fmt::format(
      "mpirun binds the workers of {} to {} of its {} cores; with mpirun --bind-to none they use all",
      own.host, used.size(), own.online);
}

}  // namespace cohort
