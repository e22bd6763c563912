#include "cluster/group_places.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/address.h"

namespace cohort {

void nameGroups(ClusterMap& cluster, int groupSize) {
  for (Member& member : cluster.members) {
    if (member.role == Role::Worker) member.group = member.index / groupSize;
  }
}

std::vector<std::string> meetingPlaces(const std::vector<WorkerDoor>& workers, int groupSize) {
  std::vector<std::string> places;
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    const std::size_t first = worker - worker % static_cast<std::size_t>(groupSize);
    const auto begin = workers.begin() + static_cast<std::ptrdiff_t>(first);
    const bool isOneHost = std::all_of(begin, begin + groupSize,
                                       [&](const WorkerDoor& other) { return other.host == begin->host; });
    places.push_back(isOneHost ? workers[worker].socket : workers[worker].address);
  }
  return places;
}

std::vector<std::string> groupOf(const std::vector<std::string>& places, int worker, int groupSize) {
  const std::ptrdiff_t first = worker - worker % groupSize;
  const auto begin = places.begin() + first;
  return {begin, begin + groupSize};
}

int groupPort(const ClusterMap& cluster, const Member& task, int k, int firstPort) {
  const auto tasks = static_cast<int>(std::ranges::count(cluster.members, task.host, &Member::host));
  const int port = firstPort + task.localIndex + k * tasks;
  if (port > kLargestPort) {
    throw UsageError(
        fmt::format("a worker of {} would listen to its group at port {}, and ports end at {}; begin with a "
                    "smaller one than {}",
                    nameOf(task), port, kLargestPort, firstPort));
  }
  return port;
}

}  // namespace cohort
