// cohort doctor: whether the hosts of a run are fit for it, before it begins.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/host.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/planned_run.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/train_options.h"
#include "cli/train_request.h"
#include "cli/version.h"
#include "cluster/launcher.h"
#include "cluster/task_map.h"
#include "comm/mpi_transport.h"
#include "doctor/findings.h"
#include "doctor/survey.h"
#include "doctor/survey_text.h"
#include "engine/instruction_set.h"
#include "report/console.h"
#include "train/config_file.h"

namespace cohort {
namespace {

constexpr int kControl = 0;          // the channel of all that is told
constexpr double kMpiPatience = 60;  // seconds: everything here takes less

struct DoctorArguments {
  HostFlags hosts;
  std::string jobDirectory;
  std::string wait = "10s";
  std::vector<std::string> words;  // of the planned run
};

// What is planned, by the words that would start it; nothing where there are none.
std::optional<TrainArguments> planOf(const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words.front() != "train") {
    throw UsageError(
        fmt::format("the words after -- are those of a run: -- train ..., not {}", words.front()));
  }
  return parseTrainWords(words);
}

// One process's view of what it takes part in.
class Doctor {
 public:
  Doctor(const RunContext& context, const DoctorArguments& arguments)
      : context_(context), arguments_(arguments), plan_(planOf(arguments.words)) {}

  // The doctor's own, or those of the run.
  HostFlags hostFlags() const {
    return plan_ && !arguments_.hosts.areGiven() ? plan_->place.hosts : arguments_.hosts;
  }

  int alone() const {
    Examination examination = begun("this process", std::nullopt, 1);
    const std::unique_ptr<Meeting> meeting = aloneMeeting();
    return told(examine(*meeting, std::move(examination)), true);
  }

  int underMpi() const {
    const MpiSession session;
    try {
      requireNoSingletons(session.size());
      Communicator workers(mpiTransport(session), kMpiPatience);
      const Channel channel(workers, kControl);
      const std::unique_ptr<Meeting> meeting = channelMeeting(channel);
      std::vector<std::string> hosts;
      for (const auto& host : meeting->share(hostName(), "its host's name"))
        hosts.push_back(host.value_or(""));
      const TaskMap tasks = tasksOnHosts(hosts, session.rank());
      const auto members = static_cast<int>(std::ranges::count(hosts, hostName()));
      const std::optional<RunConfig> config = configOf(session.size());
      const ClusterMap cluster = rolesOf(tasks, config);
      Examination examination = begun(nameOf(cluster.self()), config, members);
      if (cluster.self().port) examination.own.ports = {*cluster.self().port};
      examination.own.workers = workersOf(cluster.self());
      const int code = told(examine(*meeting, std::move(examination)), session.rank() == 0);
      return session.rank() == 0 ? code : kSuccess;
    } catch (const std::exception& error) {
      endAllTasks(session.rank(), error);
    }
  }

  int named(ClusterMap cluster) const {
    // Who is in no list has no address, and no part in the training.
    if (!cluster.self().port)
      throw UsageError(fmt::format("{} is in no list of the cluster; start cohort doctor as one that is",
                                   nameOf(cluster.self())));
    const std::string own = nameOf(cluster.self());
    std::erase_if(cluster.members, [](const Member& member) { return !member.port; });
    cluster.me = static_cast<std::size_t>(
        std::ranges::find(cluster.members, own, [](const Member& member) { return nameOf(member); }) -
        cluster.members.begin());
    const double seconds = parseDuration(arguments_.wait, "--wait");
    const auto members =
        static_cast<int>(std::ranges::count(cluster.members, cluster.self().host, &Member::host));
    Examination examination = begun(own, configOf(static_cast<int>(cluster.count(Role::Worker))), members);
    NamedMeeting met = meetAt(cluster, seconds);
    if (!met.portError.empty()) {
      examination.own.busyPorts = {fmt::format("{} ({})", *cluster.self().port, met.portError)};
    }
    examination.own.workers = workersOf(cluster.self());
    for (const Member& member : cluster.members) examination.addresses.push_back({member.host, *member.port});
    examination.listener = std::move(met.listener);
    examination.missing = std::move(met.missing);
    examination.waited = seconds;
    return told(examine(*met.meeting, std::move(examination)), true);
  }

 private:
  // Of so many workers.
  std::optional<RunConfig> configOf(int workers) const {
    if (!plan_) return std::nullopt;
    return requestOf(context_, *plan_, asOneEach(workers)).config;
  }

  ClusterMap rolesOf(const TaskMap& tasks, const std::optional<RunConfig>& config) const {
    if (!config || (!hasCenter(*config) && !plan_->place.serverTasks)) return withoutServers(tasks);
    const std::vector<int> servers =
        chooseServerTasks(tasks, plan_->place.serverTasks, static_cast<int>(config->servers));
    return withServers(tasks, servers, plan_->place.serverPort);
  }

  int workersOf(const Member& member) const {
    if (member.role != Role::Worker) return 0;
    return plan_ ? std::max(1, plan_->workersPerTask) : 1;
  }

  // `members` of those that are examined share this host.
  Examination begun(const std::string& name, std::optional<RunConfig> config, int members) const {
    Examination examination{.own = {.name = name,
                                    .version = kVersion,
                                    .instructionSet = bestInstructionSet(),
                                    .ports = {},
                                    .busyPorts = {}},
                            .plan = {},
                            .directory = arguments_.jobDirectory,
                            .addresses = {},
                            .listener = {},
                            .missing = {}};
    if (!plan_) return examination;
    // One process that is to start workers starts them here.
    const bool isStarter = !config;
    const Request request = isStarter
                                ? requestOf(context_, *plan_)
                                : requestOf(context_, *plan_, asOneEach(static_cast<int>(config->workers)));
    if (isStarter) config = request.config;
    const int workers = isStarter ? static_cast<int>(config->workers) : members;
    const int cores = std::max(1, static_cast<int>(allowedCores().size()) / workers);
    const auto grains = static_cast<int>((config->grains + config->workers - 1) / config->workers);
    const int threads = config->threads > 0 ? static_cast<int>(config->threads) : cores;
    examination.plan = compiledPlan(context_, *config, std::max(1, std::min(threads, grains)));
    if (isStarter) examination.own.workers = workers;
    if (arguments_.jobDirectory.empty()) examination.directory = request.directory;
    return examination;
  }

  // The whole report, or where another process has it, nothing; the exit code.
  static int told(const Survey& survey, bool isShown) {
    const std::vector<Finding> findings = findingsOf(survey);
    if (isShown) {
      // In one piece, or other processes' lines would come between.
      const std::string end = findings.empty() ? "nothing wrong was found" : toText(findings);
      std::istringstream lines(toText(survey) + "\n" + end);
      std::string text;
      for (std::string line; std::getline(lines, line);) text += (text.empty() ? "" : "\n") + printable(line);
      Console(stdout, stderr, {}).print(text);
    }
    return findings.empty() ? kSuccess : kUnfit;
  }

  const RunContext& context_;
  const DoctorArguments& arguments_;
  std::optional<TrainArguments> plan_;
};

int doctorCommand(const RunContext& context, const DoctorArguments& arguments) {
  const Doctor doctor(context, arguments);
  const Launcher launcher = findLauncher(processEnvironment(), doctor.hostFlags());
  if (const auto* named = std::get_if<NamedCluster>(&launcher)) return doctor.named(named->cluster);
  if (startedByMpi()) return doctor.underMpi();
  requireNoSingletons(1);
  return doctor.alone();
}

}  // namespace

void addDoctorCommand(CLI::App& app, const RunContext& context, int& exitCode) {
  CLI::App* const command = app.add_subcommand("doctor", "Whether the hosts of a run are fit for it");
  const auto arguments = std::make_shared<DoctorArguments>();
  command
      ->add_option("--job-dir", arguments->jobDirectory,
                   "a folder that all should share (default: the run's)")
      ->type_name("DIR");
  command->add_option("--wait", arguments->wait, "for the others of a cluster that is named by addresses")
      ->type_name("T")
      ->capture_default_str();
  command->add_option("--ps-hosts", arguments->hosts.psHosts, "the servers, in their order")
      ->type_name("HOST:PORT,...");
  command->add_option("--worker-hosts", arguments->hosts.workerHosts, "the workers; also n[1-4]:2222")
      ->type_name("HOST:PORT,...");
  command
      ->add_option("--job-name", arguments->hosts.jobName,
                   "what this process is there: ps, worker or evaluator")
      ->type_name("NAME");
  command->add_option("--task-index", arguments->hosts.taskIndex, "and where in it, from 0 on")
      ->type_name("K");
  command->add_option("RUN", arguments->words, "after --: the words of the run that is planned")
      ->type_name("");
  command->footer(
      "Start it as the run would be: alone, by mpirun or srun on all hosts, or on each host of a cluster "
      "that\n"
      "flags or TF_CONFIG name. With the run's words (cohort doctor -- train ...) its memory, cores and "
      "ports\n"
      "are looked at too. Exit code 6 where something was found.");
  command->callback([arguments, &context, &exitCode] { exitCode = doctorCommand(context, *arguments); });
}

}  // namespace cohort
