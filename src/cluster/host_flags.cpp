#include "cluster/host_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/named_hosts.h"
#include "cluster/words.h"

namespace cohort {
namespace {

Role roleOf(const HostFlags& flags) {
  if (!flags.jobName)
    throw UsageError("give --job-name ps, worker or evaluator: which of the lists this process is in");
  if (*flags.jobName == "ps") return Role::Server;
  if (*flags.jobName == "worker") return Role::Worker;
  if (*flags.jobName == "evaluator") return Role::Evaluator;
  throw UsageError(fmt::format("--job-name is ps, worker or evaluator, not {}", inQuotes(*flags.jobName)));
}

}  // namespace

ClusterMap clusterOf(const HostFlags& flags) {
  if (!flags.workerHosts || flags.workerHosts->empty())
    throw UsageError("give --worker-hosts HOST:PORT,...: the workers of the run, the same for all processes");
  NamedHosts hosts{.workers = parseAddressList(*flags.workerHosts, "--worker-hosts")};
  if (flags.psHosts && !flags.psHosts->empty())
    hosts.servers = parseAddressList(*flags.psHosts, "--ps-hosts");
  const Role role = roleOf(flags);
  const std::string source = "the cluster of --ps-hosts and --worker-hosts";
  if (role == Role::Evaluator) {
    ClusterMap cluster = clusterOf(hosts, source);
    cluster.members.push_back({.role = role, .index = flags.taskIndex.value_or(0)});
    cluster.me = cluster.members.size() - 1;
    return cluster;
  }
  const bool isServer = role == Role::Server;
  const std::string list = isServer ? "--ps-hosts" : "--worker-hosts";
  const std::size_t size = (isServer ? hosts.servers : hosts.workers).size();
  if (size == 0) throw UsageError("--job-name is ps, and --ps-hosts names none; give it HOST:PORT,...");
  if (!flags.taskIndex) throw UsageError(fmt::format("give --task-index: which of {} this process is", list));
  if (*flags.taskIndex < 0 || static_cast<std::size_t>(*flags.taskIndex) >= size) {
    throw UsageError(
        fmt::format("--task-index {} is not in {}, which has 0 to {}", *flags.taskIndex, list, size - 1));
  }
  ClusterMap cluster = clusterOf(hosts, source);
  cluster.me = placeOf(cluster, role, *flags.taskIndex);
  return cluster;
}

}  // namespace cohort
