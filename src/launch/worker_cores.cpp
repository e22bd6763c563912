#include "launch/worker_cores.h"

#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/host.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

WorkerCores ownCores() {
  return {.host = hostName(),
          .online = onlineCores(),
          .allowed = allowedCores(),
          // Open MPI's mpirun says that it did.
          .isBound = std::getenv("OMPI_MCA_orte_bound_at_launch") != nullptr};
}

Json jsonOf(const WorkerCores& cores) {
  return {
      {"host", cores.host}, {"online", cores.online}, {"allowed", cores.allowed}, {"bound", cores.isBound}};
}

WorkerCores coresOf(const Json& json) {
  return {.host = json.at("host"),
          .online = json.at("online"),
          .allowed = json.at("allowed"),
          .isBound = json.at("bound")};
}

}  // namespace

std::vector<WorkerCores> gatherCores(const Channel& workers) {
  Json list = Json::array();
  for (const std::string& text : workers.gather(jsonOf(ownCores()).dump(), "its cores")) {
    list.push_back(Json::parse(text));
  }
  std::vector<WorkerCores> all;
  for (const Json& json : Json::parse(workers.broadcast(list.dump(), "the workers' cores"))) {
    all.push_back(coresOf(json));
  }
  return all;
}

std::vector<int> coresOfWorker(const std::vector<WorkerCores>& all, int rank) {
  const WorkerCores& own = all[static_cast<std::size_t>(rank)];
  std::size_t before = 0;
  std::size_t sharers = 1;
  for (std::size_t other = 0; other < all.size(); ++other) {
    const bool isOther = other != static_cast<std::size_t>(rank);
    if (!isOther || all[other].host != own.host || all[other].allowed != own.allowed) continue;
    if (other < static_cast<std::size_t>(rank)) ++before;
    ++sharers;
  }
  const auto bound = [&](std::size_t index) {
    return own.allowed.begin() + static_cast<std::ptrdiff_t>(own.allowed.size() * index / sharers);
  };
  return {bound(before), bound(before + 1)};
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
