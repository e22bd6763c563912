#include "cluster/slurm.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/host_list.h"
#include "cluster/words.h"

namespace cohort {
namespace {

constexpr const char* kInStep = "this is a task of a SLURM step";
constexpr const char* kTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";
constexpr const char* kDistribution = "SLURM_DISTRIBUTION";

// Of one node: "2", or of several: "2(x3)".
struct NodeCounts {
  int tasks = 0;
  int nodes = 1;
};

std::optional<NodeCounts> parseNodeCounts(std::string_view text) {
  const std::size_t open = text.find("(x");
  const std::optional<int> tasks = wholeNumber(text.substr(0, open));
  std::optional<int> nodes = 1;
  if (open != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    nodes = wholeNumber(text.substr(open + 2, text.size() - open - 3));
  }
  if (!tasks || !nodes || *tasks < 1 || *nodes < 1) return std::nullopt;
  return NodeCounts{.tasks = *tasks, .nodes = *nodes};
}

// How many ranks in a row a node gets before it is the next one's turn: SLURM's distributions differ in nothing else.
int ranksInRow(const Environment& environment) {
  const std::string text = textOf(environment, kDistribution).value_or("block");
  const std::string nodes = text.substr(0, text.find_first_of(":,="));  // behind these: inside of a node
  if (nodes == "block") return std::numeric_limits<int>::max();
  if (nodes == "cyclic") return 1;
  const std::optional<int> plane =
      nodes == "plane" ? numberOf(environment, "SLURM_DIST_PLANESIZE") : std::nullopt;
  if (plane && *plane > 0) return *plane;
  throw UsageError(
      fmt::format("{} is {}, which does not tell where each task is; give srun --distribution=block or "
                  "--distribution=cyclic",
                  kDistribution, inQuotes(text)));
}

std::vector<std::string> distribute(const std::vector<std::string>& hosts, std::vector<int> tasksOfNode,
                                    int inRow) {
  const auto size = static_cast<std::size_t>(std::accumulate(tasksOfNode.begin(), tasksOfNode.end(), 0));
  std::vector<std::string> hostOfRank;
  while (hostOfRank.size() < size) {
    for (std::size_t node = 0; node < hosts.size(); ++node) {
      const int taken = std::min(tasksOfNode[node], inRow);
      hostOfRank.insert(hostOfRank.end(), static_cast<std::size_t>(taken), hosts[node]);
      tasksOfNode[node] -= taken;
    }
  }
  return hostOfRank;
}

int taskCount(const Environment& environment) {
  // srun sets both; the second one's name is a job's too.
  const std::optional<int> tasks = numberOf(environment, "SLURM_STEP_NUM_TASKS");
  return tasks ? *tasks : requireNumber(environment, "SLURM_NTASKS", kInStep);
}

std::vector<std::string> stepHosts(const Environment& environment) {
  for (const std::string name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const std::optional<std::string> text = textOf(environment, name)) return expandHostList(*text, name);
  }
  throw UsageError(
      fmt::format("neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set, though {}; start the "
                  "program with its whole environment",
                  kInStep));
}

// Every task says where it is; where that is not where the others would look for it, nobody should start.
void requireOwnPlace(const TaskMap& tasks, const Environment& environment) {
  const PlacedTask& task = tasks.self();
  const int node = numberOf(environment, "SLURM_NODEID").value_or(task.node);
  const int local = numberOf(environment, "SLURM_LOCALID").value_or(task.localIndex);
  if (node != task.node || local != task.localIndex) {
    throw UsageError(fmt::format(
        "rank {} is task {} of node {} by SLURM_LOCALID and SLURM_NODEID, and task {} of node {} by "
        "SLURM_STEP_TASKS_PER_NODE in {} distribution; give srun --distribution=block",
        tasks.me, local, node, task.localIndex, task.node,
        inQuotes(textOf(environment, kDistribution).value_or("block"))));
  }
  const std::string host = textOf(environment, "SLURMD_NODENAME").value_or(task.host);
  if (host != task.host) {
    throw UsageError(fmt::format(
        "rank {} is on {} by the step's list of nodes, and on {} by SLURMD_NODENAME: variables of "
        "another job were inherited; unset SLURM_* before this one is started",
        tasks.me, inQuotes(task.host), inQuotes(host)));
  }
}

TaskMap tasksOf(const Environment& environment) {
  const std::vector<std::string> hosts = stepHosts(environment);
  const std::string text = requireText(environment, kTasksPerNode, kInStep);
  const std::vector<int> tasksOfNode = parseTasksPerNode(text, kTasksPerNode);
  if (tasksOfNode.size() != hosts.size()) {
    throw UsageError(fmt::format(
        "{} {} is of {}, and the step has {}; start the program by srun, and with its whole "
        "environment",
        kTasksPerNode, inQuotes(text), counted(tasksOfNode.size(), "node"), counted(hosts.size(), "host")));
  }
  const int size = taskCount(environment);
  const int placed = std::accumulate(tasksOfNode.begin(), tasksOfNode.end(), 0);
  if (placed != size) {
    throw UsageError(
        fmt::format("{} {} is of {}, and the step has {}; start the program by srun, and with its whole "
                    "environment",
                    kTasksPerNode, inQuotes(text), counted(static_cast<std::size_t>(placed), "task"), size));
  }
  const int rank = requireNumber(environment, "SLURM_PROCID", kInStep);
  if (rank >= size) {
    throw UsageError(
        fmt::format("SLURM_PROCID is {}, and the step's {} are 0 to {}; start the program by srun", rank,
                    counted(static_cast<std::size_t>(size), "task"), size - 1));
  }
  TaskMap tasks = tasksOnHosts(distribute(hosts, tasksOfNode, ranksInRow(environment)), rank);
  requireOwnPlace(tasks, environment);
  return tasks;
}

}  // namespace

std::vector<int> parseTasksPerNode(std::string_view text, const std::string& source) {
  std::vector<int> tasks;
  std::size_t sum = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    begin = comma + 1;
    const std::optional<NodeCounts> counts = parseNodeCounts(part);
    if (!counts) {
      throw UsageError(fmt::format("{} is {}, and should be numbers of tasks such as 2(x3),1; {} is none",
                                   source, inQuotes(text), inQuotes(part)));
    }
    sum += static_cast<std::size_t>(counts->tasks) * static_cast<std::size_t>(counts->nodes);
    if (sum > kMostHosts)
      throw UsageError(fmt::format("{} {} is of more than {} tasks", source, inQuotes(text), kMostHosts));
    tasks.insert(tasks.end(), static_cast<std::size_t>(counts->nodes), counts->tasks);
  }
  return tasks;
}

std::optional<SlurmJob> findSlurmJob(const Environment& environment) {
  const std::optional<std::string> id = textOf(environment, "SLURM_JOB_ID");
  if (!id) return std::nullopt;
  const std::string list = "SLURM_JOB_NODELIST";
  return SlurmJob{.id = *id,
                  .hosts = expandHostList(textOf(environment, list).value_or(""), list),
                  .restarts = numberOf(environment, "SLURM_RESTART_COUNT").value_or(0)};
}

std::optional<SlurmStep> findSlurmStep(const Environment& environment) {
  const std::optional<std::string> id = textOf(environment, "SLURM_STEP_ID");
  if (!id && !isSet(environment, "SLURM_STEP_NUM_TASKS")) return std::nullopt;
  const std::optional<SlurmJob> job = findSlurmJob(environment);
  return SlurmStep{.job = job.value_or(SlurmJob{}),
                   .id = id.value_or(""),
                   .tasks = tasksOf(environment),
                   .coresPerTask = numberOf(environment, "SLURM_CPUS_PER_TASK")};
}

std::string noStepNote(const SlurmJob& job) {
  return fmt::format(
      "this process is in SLURM job {}{}, but in no step of it, and so a task of its own; start it by "
      "srun (srun --mpi=pmix cohort ...), which starts one for every task",
      job.id, job.hosts.empty() ? "" : fmt::format(" on {}", compressHostList(job.hosts)));
}

}  // namespace cohort
