#include "cluster/task_map.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/address.h"
#include "cluster/number_list.h"
#include "cluster/words.h"

namespace cohort {
namespace {

Member memberOf(const TaskMap& tasks, std::size_t rank) {
  const PlacedTask& task = tasks.tasks[rank];
  return {.role = Role::Worker,
          .index = static_cast<int>(rank),
          .host = task.host,
          .localIndex = task.localIndex,
          .rank = static_cast<int>(rank)};
}

int portOf(const Member& server, int firstPort) {
  const int port = firstPort + server.localIndex;
  if (port > kLargestPort) {
    throw UsageError(
        fmt::format("server {} (rank {}) would listen at port {}, and ports end at {}; begin with a "
                    "smaller one than {}, or let fewer tasks serve",
                    server.index, *server.rank, port, kLargestPort, firstPort));
  }
  return port;
}

}  // namespace

std::vector<std::string> TaskMap::hosts() const {
  std::vector<std::string> hosts;
  for (const PlacedTask& task : tasks) {
    if (task.localIndex == 0) hosts.push_back(task.host);
  }
  return hosts;
}

TaskMap tasksOnHosts(const std::vector<std::string>& hostOfRank, int me) {
  struct Node {
    int index = 0;
    int tasks = 0;
  };
  std::map<std::string, Node> nodes;
  TaskMap map{.tasks = {}, .me = me};
  for (const std::string& host : hostOfRank) {
    Node& node = nodes.try_emplace(host, Node{.index = static_cast<int>(nodes.size())}).first->second;
    map.tasks.push_back({.host = host, .node = node.index, .localIndex = node.tasks++});
  }
  return map;
}

ClusterMap withoutServers(const TaskMap& tasks) {
  ClusterMap cluster{.members = {}, .me = static_cast<std::size_t>(tasks.me)};
  for (std::size_t rank = 0; rank < tasks.tasks.size(); ++rank)
    cluster.members.push_back(memberOf(tasks, rank));
  return cluster;
}

std::vector<int> defaultServerTasks(const TaskMap& tasks) {
  if (tasks.hosts().size() == 1) return {0};
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < tasks.tasks.size(); ++rank) {
    if (tasks.tasks[rank].node == 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<int> parseServerTasks(const std::string& text, const TaskMap& tasks, const std::string& source) {
  const int size = static_cast<int>(tasks.tasks.size());
  if (const std::optional<int> count = wholeNumber(text)) {
    if (*count == 0) throw UsageError(fmt::format("{} 0 leaves no server; give at least 1", source));
    // That nobody is left to work is said of every choice, where it is made.
    std::vector<int> first(static_cast<std::size_t>(std::min(*count, size)));
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  std::vector<int> ranks = parseNumberList(text, source);
  for (const int rank : ranks) {
    if (rank >= size) {
      throw UsageError(fmt::format("{} {}: there is no rank {}; the {} are 0 to {}", source, text, rank,
                                   counted(tasks.tasks.size(), "task"), size - 1));
    }
  }
  return ranks;
}

std::vector<int> chooseServerTasks(const TaskMap& tasks, const std::optional<std::string>& text,
                                   int servers) {
  const std::string source = "--server-tasks";
  if (!text)
    return servers == 0 ? defaultServerTasks(tasks)
                        : parseServerTasks(std::to_string(servers), tasks, source);
  std::vector<int> ranks = parseServerTasks(*text, tasks, source);
  if (servers > 0 && static_cast<std::size_t>(servers) != ranks.size()) {
    throw UsageError(fmt::format("{} {} is {}, and --servers is {}; leave one of them out", source, *text,
                                 counted(ranks.size(), "server"), servers));
  }
  return ranks;
}

ClusterMap withServers(const TaskMap& tasks, const std::vector<int>& serverRanks,
                       std::optional<int> firstPort) {
  ClusterMap cluster = withoutServers(tasks);
  int servers = 0;
  for (const int rank : serverRanks) {
    Member& member = cluster.members[static_cast<std::size_t>(rank)];
    member.role = Role::Server;
    member.index = servers++;
    if (firstPort) member.port = portOf(member, *firstPort);
  }
  int workers = 0;
  for (Member& member : cluster.members) {
    if (member.role == Role::Worker) member.index = workers++;
  }
  if (workers == 0) {
    throw UsageError(
        fmt::format("of {} none is left to work where {} serve; start more tasks, or let fewer serve",
                    counted(tasks.tasks.size(), "task"), servers));
  }
  return cluster;
}

}  // namespace cohort
