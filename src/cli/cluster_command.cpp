// cohort cluster …: what the program understands of where it is, before it does anything there.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/host.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/place_flags.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cluster/group_places.h"
#include "cluster/host_list.h"
#include "cluster/launcher.h"
#include "cluster/number_list.h"
#include "cluster/task_map.h"
#include "report/console.h"
#include "train/run_config.h"

namespace cohort {
namespace {

struct ShowArguments {
  PlaceFlags place;
  std::string sync = "bsp";
  std::string groups = "0";
};

// What there is to see: who has started this process, and the cluster as far as one process can know it.
struct View {
  std::string launcher;
  std::optional<ClusterMap> cluster = {};  // nothing: others' hosts are not known yet
  std::optional<int> rank = {};            // of tasks that were all started to say this
};

std::string countText(std::size_t count, Role role) {
  return fmt::format("{} {}{}", count, toText(role), count == 1 ? "" : "s");
}

std::string rolesText(const ClusterMap& cluster) {
  std::string text = countText(cluster.count(Role::Worker), Role::Worker);
  for (const Role role : {Role::Server, Role::Evaluator}) {
    if (cluster.count(role) > 0) text += ", " + countText(cluster.count(role), role);
  }
  return text;
}

// Looks at each kind of launcher as one run would that was started so.
class Viewer {
 public:
  Viewer(const ShowArguments& arguments, const ExchangeRules& rules) : arguments_(arguments) {
    applySettings(config_, {{"sync", {arguments.sync}}, {"groups", {arguments.groups}}});
    requireRule(config_, rules);
    if (arguments.place.serverTasks && !hasCenter(config_) && config_.sync != "bsp") {
      throw UsageError(
          fmt::format("--sync {} has no servers; leave --server-tasks out, or use bsp, async, ssp or backup",
                      config_.sync));
    }
  }

  View operator()(const NoLauncher&) const {
    requireNoServerTasks();
    return {.launcher = "one machine: no launcher has started this process",
            .cluster = oneMachine(hostName())};
  }

  View operator()(const NamedCluster& named) const {
    requireNoServerTasks();
    ClusterMap cluster = named.cluster;
    showGroups(cluster);
    const bool isTfConfig = named.source == NamedCluster::Source::TfConfig;
    const bool servesChief = named.cluster.count(Role::Server) == 0 &&
                             (hasCenter(config_) || named.cluster.count(Role::Worker) > 1);
    return {.launcher = fmt::format("{}: {}{}", isTfConfig ? "TF_CONFIG" : "--ps-hosts and --worker-hosts",
                                    rolesText(cluster), servesChief ? "; worker 0 serves too" : ""),
            .cluster = cluster};
  }

  View operator()(const MpiPlace& place) const {
    const std::string of = place.size ? fmt::format(" of {}", *place.size) : "";
    View view{.launcher = fmt::format("MPI: rank {}{}", place.rank, of), .rank = place.rank};
    if (place.isOneHost()) {
      const std::vector<std::string> hosts(static_cast<std::size_t>(*place.size), hostName());
      view.cluster = withRoles(tasksOnHosts(hosts, place.rank));
      view.launcher += fmt::format(", all on this host; {}", rolesText(*view.cluster));
    } else {
      view.launcher +=
          "; mpirun does not tell on which hosts the others are: training asks them, and then says who "
          "serves";
    }
    return view;
  }

  View operator()(const SlurmStep& step) const {
    const ClusterMap cluster = withRoles(step.tasks);
    std::string text = fmt::format("SLURM job {}, step {}: {} on {}", step.job.id, step.id,
                                   rolesText(cluster), compressHostList(step.tasks.hosts()));
    if (step.coresPerTask) text += fmt::format(", --cpus-per-task {}", *step.coresPerTask);
    if (step.job.restarts > 0)
      text += fmt::format("; queued again {} time{}", step.job.restarts, step.job.restarts == 1 ? "" : "s");
    return {.launcher = text, .cluster = cluster, .rank = step.tasks.me};
  }

  View operator()(const SlurmJob& job) const {
    requireNoServerTasks();
    return {.launcher = noStepNote(job), .cluster = oneMachine(hostName())};
  }

 private:
  void requireNoServerTasks() const {
    if (!arguments_.place.serverTasks) return;
    throw UsageError(
        "--server-tasks chooses among tasks that srun or mpirun has started, and this process is none");
  }

  ClusterMap withRoles(const TaskMap& tasks) const {
    if (!hasCenter(config_) && !arguments_.place.serverTasks) return withoutServers(tasks);
    ClusterMap cluster = withServers(tasks, chooseServerTasks(tasks, arguments_.place.serverTasks, 0),
                                     arguments_.place.serverPort);
    showGroups(cluster);
    return cluster;
  }

  // Where it is said how many.
  void showGroups(ClusterMap& cluster) const {
    if (config_.sync != "group" || config_.groups == 0) return;
    RunConfig counted = config_;
    counted.workers = static_cast<std::int64_t>(cluster.count(Role::Worker));
    counted.grains = counted.workers;  // nobody says how many there are
    requireGroups(counted);
    nameGroups(cluster, groupSize(counted));
  }

  const ShowArguments& arguments_;
  RunConfig config_;
};

std::string ownText(const View& view) {
  const std::vector<int> cores = allowedCores();
  const int lanes = ownCores().lanes;  // fewer where cores have several threads, or time is limited
  return fmt::format(
      "{}{}: on {}, {} of its {} cores ({}){}", view.rank ? fmt::format("rank {}, ", *view.rank) : "",
      view.cluster ? nameOf(view.cluster->self()) : "this process", hostName(), cores.size(), onlineCores(),
      numberListText(cores),
      lanes == static_cast<int>(cores.size()) ? ""
                                              : fmt::format(": {} lane{}", lanes, lanes == 1 ? "" : "s"));
}

int showCommand(const ShowArguments& arguments, const ExchangeRules& rules) {
  const View view =
      std::visit(Viewer(arguments, rules), findLauncher(processEnvironment(), arguments.place.hosts));
  // Of many tasks that say this at once, one has the table; what only each of them knows, each says.
  std::string text;
  if (view.rank.value_or(0) == 0) {
    text = printable(view.launcher) + "\n";
    if (view.cluster) text += toText(*view.cluster) + "\n";
  }
  // In one piece, or other tasks' lines would come between.
  Console(stdout, stderr, {}).print(text + printable(ownText(view)));
  return kSuccess;
}

void addShow(CLI::App& cluster, const RunContext& context, int& exitCode) {
  CLI::App* const command = cluster.add_subcommand(
      "show", "What the environment and these flags tell: who is where, in which role, with which cores");
  const auto arguments = std::make_shared<ShowArguments>();
  arguments->place.addTo(*command);
  command->add_option("--sync", arguments->sync, "the rule: some have servers")
      ->type_name("RULE")
      ->capture_default_str();
  command->add_option("--groups", arguments->groups, "of --sync group: into how many the workers divide")
      ->type_name("N");
  command->footer(
      "Flags come first, then TF_CONFIG, then what mpirun, then what srun has set. For a rule with servers,\n"
      "and without --server-tasks, all tasks of the first node serve (of one node: the first task). Under\n"
      "srun and mpirun the first task prints the table, and each task its own line.");
  command->callback([arguments, &context, &exitCode] { exitCode = showCommand(*arguments, context.rules); });
}

}  // namespace

void addClusterCommands(CLI::App& app, const RunContext& context, int& exitCode) {
  CLI::App* const cluster =
      app.add_subcommand("cluster", "What this process understands of its place among others");
  cluster->callback([cluster] {
    if (cluster->get_subcommands().empty())
      throw UsageError("the word after cohort cluster is show (see cohort cluster --help)");
  });
  addShow(*cluster, context, exitCode);
}

}  // namespace cohort
