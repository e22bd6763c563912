#include "cli/group_meeting.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/center_member.h"
#include "cli/center_options.h"
#include "cluster/group_places.h"
#include "comm/mesh_transport.h"
#include "launch/center_supervisor.h"
#include "launch/worker_signs.h"
#include "train/activity.h"

namespace cohort {
namespace {

constexpr double kSilence = 15;  // seconds, as between workers and servers

MeshPlace placeIn(const TrainArguments& arguments, const std::vector<std::string>& addresses, int worker) {
  const auto size = static_cast<int>(addresses.size());
  const int rank = worker % size;
  const std::string& own = addresses[static_cast<std::size_t>(rank)];
  MeshPlace place{.rank = rank,
                  .addresses = addresses,
                  .listen = listenAddress(own),
                  .first = worker - rank,
                  .silence = kSilence};
  // What only its user can open needs no proof.
  if (!own.starts_with("unix:"))
    place.credentials = meshCredentials(credentialsFor(addresses, arguments.credentials, arguments.insecure));
  return place;
}

}  // namespace

std::unique_ptr<Communicator> meetGroup(const RunContext& context, const TrainArguments& arguments,
                                        const std::string& addresses, int worker, SupervisorLink& link,
                                        const StopFlag& stop) {
  const Request request = requestOf(context, arguments);
  MeshPlace place = placeIn(arguments, parseAddresses(addresses, kGroupAddressesVariable), worker);
  place.patience = request.config.recoveryWait;
  place.isGivenUp = [&stop] { return stop.load(); };
  Activity activity;
  activity.enter(Activity::Phase::Meeting);
  WorkerSigns signs(link, {.worker = worker, .activity = activity});
  signs.publish(request.directory, std::to_string(worker), request.config.stallTimeout);
  try {
    // Each supervisor knows whether its worker stands still.
    return signs.during(
        [&] { return std::make_unique<Communicator>(connectMesh(place), Communicator::kForEver); });
  } catch (const PeerError&) {
    if (stop) return nullptr;
    throw;
  }
}

std::string groupSocket(const std::filesystem::path& folder, int worker) {
  return fmt::format("unix:{}", (folder / fmt::format("worker-{}", worker)).string());
}

std::vector<std::vector<std::string>> groupSockets(const std::filesystem::path& folder, int workers,
                                                   int groupSize) {
  std::vector<std::string> all;
  all.reserve(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) all.push_back(groupSocket(folder, worker));
  std::vector<std::vector<std::string>> groups;
  groups.reserve(all.size());
  for (int worker = 0; worker < workers; ++worker) groups.push_back(groupOf(all, worker, groupSize));
  return groups;
}

}  // namespace cohort
