// cohort train with a center: as one worker (--join), and as the supervisor of servers and workers.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "base/error.h"
#include "base/host.h"
#include "base/scratch_folder.h"
#include "center/client.h"
#include "cli/center_options.h"
#include "cli/console_observer.h"
#include "cli/exit_code.h"
#include "cli/grace_watch.h"
#include "cli/group_meeting.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "comm/mpi_transport.h"
#include "launch/center_supervisor.h"
#include "launch/folders.h"
#include "launch/supervisor_link.h"
#include "launch/worker_cores.h"
#include "launch/worker_log.h"
#include "launch/worker_signs.h"

namespace cohort {
namespace {

// ---- what was asked for

bool isEachAlone(const RunConfig& config) {
  return stepsAlone(config) && !exchanges(config);
}

// With as many servers as are joined.
Request joinRequest(const RunContext& context, const TrainArguments& arguments, std::size_t servers) {
  const std::string count = std::to_string(servers);
  const std::string given = givenText(arguments, "servers").value_or("0");
  const auto wanted = std::strtoul(given.c_str(), nullptr, 10);  // 0: as many as the rule needs
  if (wanted != 0 && wanted != servers) {
    throw UsageError(fmt::format(
        "--servers {}, but --join names {} server{}; name all of them in their order, or leave --servers out",
        given, count, servers == 1 ? "" : "s"));
  }
  return requestOf(context, arguments, {{"servers", {count}}});
}

// Of one that nobody supervises: how many others there will be, it cannot know.
void requireOwnBatch(const TrainArguments& arguments, const RunConfig& config) {
  if (!isGiven(arguments, "batch-per-worker") || isGiven(arguments, "workers") || isEachAlone(config)) return;
  throw UsageError(
      fmt::format("--batch-per-worker says nothing with --join and --sync {} alone: it is not known how many "
                  "workers will "
                  "share a step; give --batch-size, or --workers too",
                  config.sync));
}

void requireNoGroupByHand(const RunConfig& config) {
  if (groupSize(config) == 1) return;
  throw UsageError(fmt::format(
      "with --join this is one worker, and --groups {} of {} workers are groups of {}; cohort train "
      "--workers {} "
      "--sync group --groups {} starts them on one machine, and workers that join by hand can use --sync {}",
      config.groups, config.workers, groupSize(config), config.workers, config.groups, centerRule(config)));
}

void sayWhatIsIdle(Screen& screen, const TrainArguments& arguments, const RunConfig& config) {
  printNotes(screen, arguments, config);
  sayUnsupervised(screen, arguments);
  sayIdle(screen, arguments, {"snapshot-every"}, "it is for those who serve (cohort serve --snapshot-every)");
  sayIdle(screen, arguments, {"journal"}, "it is for those who serve (cohort serve --no-journal)");
  // Under backup it says how many there must be.
  if (config.sync != "backup") {
    sayIdle(screen, arguments, {"workers"},
            "with --join this is one worker; start each of the others in the same way");
  }
}

// Workers of one supervisor divide this machine's cores.
std::vector<OwnedCores> divideCores(int workers) {
  const std::vector<WorkerCores> all(static_cast<std::size_t>(workers), workerCores());
  std::vector<OwnedCores> divided;
  divided.reserve(all.size());
  for (int worker = 0; worker < workers; ++worker) divided.push_back(coresOfWorker(all, worker));
  return divided;
}

// As its supervisor says, who names those of all workers of an mpirun in their order.
OwnedCores coresHere(int place) {
  const char* cores = std::getenv(kWorkerCoresVariable);
  if (cores == nullptr) return ownCores();
  std::istringstream texts(cores);
  std::string own;
  for (int i = 0; i <= place; ++i) std::getline(texts, own, *kNextWorker);
  return parseOwnedCores(own, kWorkerCoresVariable);
}

// ---- one worker

// A supervised worker is known by its number, another by where it runs.
struct Identity {
  SupervisorLink& link;
  const StopFlag& stop;  // asks it to leave
  int worker = 0;
  std::string log{};              // names its log
  Communicator* group = nullptr;  // where it is in one
  int place = 0;                  // among those whose cores the supervisor names together

  int rank() const { return group == nullptr ? 0 : group->rank(); }
  bool isShown() const { return !link || worker == 0; }
};

void sayEnding(Screen& screen, const RunSummary& summary, const Identity& who,
               const std::filesystem::path& directory) {
  if (summary.ending == Ending::Left) {
    screen.endProgress();
    screen.result("left the run, which goes on with others");
    return;
  }
  const bool isStopped = summary.ending == Ending::Stopped;
  if (summary.isChief) {
    screen.endProgress();
    printSummary(screen, summary);
    if (isStopped) {
      screen.result(fmt::format("stopped by a signal; go on with: cohort train --job-dir {}{}",
                                directory.string(), who.link ? "" : ", and --join as before"));
    }
  } else if (!who.link) {
    screen.result(isStopped ? "the run was stopped" : "the run is over");
  }
}

int trainInCenter(const RunContext& context, const TrainArguments& arguments, const Identity& who) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  Screen& screen = who.link ? static_cast<Screen&>(who.link) : console;
  const std::vector<std::string> addresses = parseAddresses(arguments.join, "--join");
  Request request = joinRequest(context, arguments, addresses.size());
  const auto credentials = credentialsFor(addresses, arguments.credentials, arguments.insecure);
  if (!who.link) {
    requireNoGroupByHand(request.config);
    requireOwnBatch(arguments, request.config);
    sayWhatIsIdle(screen, arguments, request.config);
  }
  if (request.directory.empty()) request.directory = newJobDirectory(request.config.network);
  const JobDirectory job(request.directory,
                         who.link ? JobDirectory::Role::Member : JobDirectory::Role::Joined);
  Activity activity;
  WorkerSigns signs(
      who.link,
      {.worker = who.worker, .workers = who.group, .activity = activity, .first = who.worker - who.rank()});
  signs.publish(request.directory, who.log, request.config.stallTimeout);
  Observers observers;
  ConsoleObserver shown(screen);
  WorkerLog log(request.directory, who.log, WorkerLog::Counts::RunAndOwn);
  if (who.isShown()) printPlan(screen, request.config, request.directory);
  observers.add(shown);
  observers.add(log);
  if (who.link) log.takeOutput();
  std::optional<GraceWatch> graceWatch;
  const std::optional<double> grace = graceSeconds(processEnvironment());
  if (grace && who.isShown()) observers.add(graceWatch.emplace(*grace, request.directory, screen));
  const RunSummary summary = signs.during([&] {
    return runWithCenter(context, std::move(request.config), job, who.stop, arguments.processStart, observers,
                         {.servers = connectorTo(addresses, credentials),
                          .activity = activity,
                          .cores = coresHere(who.place),
                          .name = fmt::format("{}:{}", hostName(), getpid()),
                          .group = who.group,
                          .isFirst = who.isShown()});
  });
  sayEnding(screen, summary, who, request.directory);
  return summary.interrupted || summary.ending != Ending::Done ? kResume : kSuccess;
}

// As one worker of a group that a supervisor has started by mpirun. One that fails ends the group.
int trainInGroup(const RunContext& context, const TrainArguments& arguments, SupervisorLink& link,
                 const StopFlag& stop, int first) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const MpiSession session;
  const int worker = first + session.rank();
  setCrashWorker(worker);
  try {
    Communicator group(mpiTransport(session),
                       Communicator::kForEver);  // the supervisor knows who stands still
    const int code = trainInCenter(context, arguments,
                                   {link, stop, worker, std::to_string(worker), &group, session.rank()});
    link.finished(worker, code);
    return kSuccess;
  } catch (const std::exception& error) {
    const int code = exitCodeOf(error);
    letFirstSpeak(session.rank(), code);
    link.failed(worker, error.what(), code);
    MpiSession::abort(code);
  }
}

}  // namespace

int trainAsJoined(const RunContext& context, const TrainArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  const char* number = std::getenv(kWorkerVariable);
  keepLargeBlocks();
  SupervisorLink link(fifo == nullptr ? "" : fifo);
  // Before gRPC makes threads. A signal to all processes at once is the supervisor's to deal with: a worker that left would write no
  // checkpoint.
  const StopFlag& stop = link ? leaveWhenAsked() : stopOnSignals();
  if (!link) {
    if (arguments.place.hosts.areGiven())
      throw UsageError("--join and --worker-hosts both say who the others are; leave one of them out");
    // Others by hand may share the folder.
    return trainInCenter(context, arguments, {link, stop, 0, fmt::format("{}-{}", hostName(), getpid())});
  }
  if (const char* first = std::getenv(kGroupVariable))
    return trainInGroup(context, arguments, link, stop, static_cast<int>(std::strtol(first, nullptr, 10)));
  const auto worker = number == nullptr ? 0 : static_cast<int>(std::strtol(number, nullptr, 10));
  setCrashWorker(worker);
  std::unique_ptr<Communicator> group;  // nothing: it is in none
  try {
    if (const char* addresses = std::getenv(kGroupAddressesVariable)) {
      group = meetGroup(context, arguments, addresses, worker, link, stop);
      if (!group) return kResume;
    }
    return trainInCenter(context, arguments, {link, stop, worker, std::to_string(worker), group.get()});
  } catch (const std::exception& error) {
    const int code = exitCodeOf(error);
    // What all of a group find wrong, its first worker's supervisor says.
    if (group && code == kUsageError) letFirstSpeak(group->rank(), code);
    link.failed(worker, error.what(), code);
    return code;
  }
}

int superviseWithCenter(const TrainArguments& arguments, Request request) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  printNotes(console, arguments, request.config);
  sayIdle(console, arguments, {"elastic"}, whyInelastic(request.config));
  CenterSupervisorOptions options{
      .common = supervisionOf(arguments, request, console),
      .cores = divideCores(static_cast<int>(request.config.workers)),
      .groupSize = groupSize(request.config),
      .servers = static_cast<int>(std::max<std::int64_t>(1, request.config.servers)),
      .recoverySeconds = request.config.recoveryWait,
      .snapshotSeconds = request.config.snapshotEvery,
      .hasJournal = request.config.journal};
  std::optional<ScratchFolder> sockets;
  if (options.groupSize > 1 && startedByMpi()) {  // under which there can be no other mpirun
    sockets.emplace(temporaryFolder() / "cohort");
    options.groups = groupSockets(sockets->path(), options.common.workers, options.groupSize);
    options.groupSize = 1;
  }
  const JobDirectory job(request.directory, JobDirectory::Role::Supervisor);
  const int code = superviseCenter(options, job, console);
  console.endProgress();
  return code;
}

}  // namespace cohort
