// cohort train with a center: as one worker (--join), and as the supervisor of servers and workers.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "base/error.h"
#include "base/host.h"
#include "center/client.h"
#include "cli/center_options.h"
#include "cli/console_observer.h"
#include "cli/exit_code.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "launch/center_supervisor.h"
#include "launch/supervisor_link.h"
#include "launch/worker_cores.h"
#include "launch/worker_log.h"

namespace cohort {
namespace {

// ---- what was asked for

bool isEachAlone(const RunConfig& config) {
  return config.sync == "async" || config.sync == "ssp";
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

void sayWhatIsIdle(Screen& screen, const TrainArguments& arguments, const RunConfig& config) {
  printNotes(screen, arguments, config);
  sayUnsupervised(screen, arguments);
  sayIdle(screen, arguments, {"snapshot-every"}, "it is for those who serve (cohort serve --snapshot-every)");
  // Under backup it says how many there must be.
  if (config.sync != "backup") {
    sayIdle(screen, arguments, {"workers"},
            "with --join this is one worker; start each of the others in the same way");
  }
}

// Of the workers that share this machine's cores, this is number `worker`.
std::vector<int> coresInCenter(int worker, int workers) {
  const WorkerCores own{.host = hostName(), .online = onlineCores(), .allowed = allowedCores()};
  return coresOfWorker(std::vector<WorkerCores>(static_cast<std::size_t>(workers), own), worker);
}

// ---- one worker

// A supervised worker is known by its number, another by where it runs.
struct Identity {
  SupervisorLink& link;
  int worker = 0;
  std::string log{};  // names its log

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
    requireOwnBatch(arguments, request.config);
    sayWhatIsIdle(screen, arguments, request.config);
  }
  if (request.directory.empty()) request.directory = newJobDirectory(request.config.network);
  const JobDirectory job(request.directory,
                         who.link ? JobDirectory::Role::Member : JobDirectory::Role::Joined);
  Activity activity;
  who.link.watch(who.worker, activity);
  Observers observers;
  ConsoleObserver shown(screen);
  WorkerLog log(request.directory, who.log, WorkerLog::Counts::RunAndOwn);
  if (who.isShown()) printPlan(screen, request.config, request.directory);
  observers.add(shown);
  observers.add(log);
  if (who.link) log.takeOutput();
  const int workers = who.link ? static_cast<int>(request.config.workers) : 1;
  // A signal to all processes at once is the supervisor's to deal with: a worker that left would write no checkpoint.
  static const StopFlag kNever = false;
  const RunSummary summary =
      runWithCenter(context, std::move(request.config), job, who.link ? kNever : stopOnSignals(),
                    arguments.processStart, observers,
                    {.servers = connectorTo(addresses, credentials),
                     .activity = activity,
                     .cores = coresInCenter(who.worker, workers),
                     .name = fmt::format("{}:{}", hostName(), getpid()),
                     .isFirst = who.isShown()});
  who.link.unwatch();
  sayEnding(screen, summary, who, request.directory);
  return summary.interrupted || summary.ending != Ending::Done ? kResume : kSuccess;
}

}  // namespace

int trainAsJoined(const RunContext& context, const TrainArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  const char* number = std::getenv(kWorkerVariable);
  stopOnSignals();  // before gRPC makes threads
  keepLargeBlocks();
  SupervisorLink link(fifo == nullptr ? "" : fifo);
  // Others by hand may share the folder.
  if (!link) return trainInCenter(context, arguments, {link, 0, fmt::format("{}-{}", hostName(), getpid())});
  const auto worker = number == nullptr ? 0 : static_cast<int>(std::strtol(number, nullptr, 10));
  ignoreFurtherSignals();
  setCrashWorker(worker);
  try {
    return trainInCenter(context, arguments, {link, worker, std::to_string(worker)});
  } catch (const std::exception& error) {
    const int code = exitCodeOf(error);
    link.failed(worker, error.what(), code);
    return code;
  }
}

int superviseWithCenter(const TrainArguments& arguments, Request request) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  printNotes(console, arguments, request.config);
  sayIdle(console, arguments, {"elastic"}, "workers of a center come and go by themselves");
  const CenterSupervisorOptions options{
      .common = supervisionOf(arguments, request, console),
      .servers = static_cast<int>(std::max<std::int64_t>(1, request.config.servers)),
      .recoverySeconds = request.config.recoveryWait,
      .snapshotSeconds = request.config.snapshotEvery};
  const JobDirectory job(request.directory, JobDirectory::Role::Supervisor);
  const int code = superviseCenter(options, job, console);
  console.endProgress();
  return code;
}

}  // namespace cohort
