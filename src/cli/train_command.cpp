#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/crash_point.h"
#include "base/error.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/console_observer.h"
#include "cli/exit_code.h"
#include "cli/grace_watch.h"
#include "cli/ground_check.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/shared_directory.h"
#include "cli/signals.h"
#include "cli/task_workers.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "cluster/launcher.h"
#include "cluster/mpi_place.h"
#include "cluster/singletons.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "launch/supervisor.h"
#include "launch/supervisor_link.h"
#include "launch/worker_cores.h"
#include "launch/worker_hosts.h"
#include "launch/worker_log.h"
#include "launch/worker_signs.h"
#include "report/console.h"
#include "train/config_file.h"
#include "train/run.h"

namespace cohort {
namespace {

constexpr int kControl = 0;  // the channel of everything but checkpoints

// Trains as the worker at this place; the first one shows it on `screen`.
int trainAsWorker(const RunContext& context, const TrainArguments& arguments, const WorkerPlace& place,
                  bool isSupervised, WorkerSigns& signs, Screen& screen) {
  Communicator& workers = place.workers;
  const StopFlag& stop = stopOnSignals();
  const Channel channel(workers, kControl);
  Request request = requestOf(context, arguments, {{"workers", {std::to_string(workers.size())}}});
  std::optional<JobDirectory> job;
  if (workers.isFirst()) {
    printNotes(screen, arguments, request.config);
    if (!isSupervised) sayUnsupervised(screen, arguments, workers.size());
    if (request.directory.empty()) request.directory = newJobDirectory(request.config.network);
    job.emplace(request.directory, isSupervised ? JobDirectory::Role::Member : JobDirectory::Role::First);
    printPlan(screen, request.config, request.directory);
  }
  request.directory = channel.broadcast(request.directory.string(), "the job directory's name");
  if (!workers.isFirst()) job.emplace(request.directory, JobDirectory::Role::Member);
  requireSharedDirectory(channel, request.directory);
  signs.publish(request.directory, std::to_string(workers.rank()), request.config.stallTimeout);

  Observers observers;
  ConsoleObserver console(screen);
  std::optional<WorkerLog> log;
  std::optional<GraceWatch> graceWatch;
  if (workers.isFirst()) {
    observers.add(console);
    if (const std::optional<double> grace = graceSeconds(processEnvironment()))
      observers.add(graceWatch.emplace(*grace, request.directory, screen));
  }
  if (workers.size() > 1 || isSupervised) {
    observers.add(log.emplace(request.directory, std::to_string(workers.rank())));
    if (isSupervised) log->takeOutput();
  }
  const RunSummary summary = signs.during([&] {
    return runTraining(context, std::move(request.config), *job, stop, arguments.processStart, observers,
                       place);
  });
  if (workers.isFirst()) {
    screen.endProgress();
    printSummary(screen, summary);
    if (summary.interrupted) {
      screen.result(fmt::format("stopped by a signal; go on with: cohort train --job-dir {}",
                                request.directory.string()));
    }
  }
  return summary.interrupted ? kResume : kSuccess;
}

void checkGroundOf(Communicator& workers, const RunContext& context, const RunConfig& config,
                   Screen& screen) {
  checkGround(Channel(workers, kControl), {.name = fmt::format("worker {}", workers.rank())}, context, config,
              screen);
}

// Trains as one of several that mpirun (or the like) has started, or as several of them. A worker that fails ends all, after
// its last words.
int trainUnderMpi(const RunContext& context, const TrainArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  SupervisorLink link(fifo == nullptr ? "" : fifo);
  if (link) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (link) ignoreFurtherSignals();
  stopOnSignals();  // before MPI makes threads
  const MpiSession session;
  const int each = std::max(1, arguments.workersPerTask);
  setCrashWorker(session.rank() * each, each);
  const auto fail = [&](int worker, const std::exception& error, const std::vector<WorkerCores>& cores) {
    if (!link) endAllTasks(worker, error, cores);
    const int code = exitCodeOf(error);
    letFirstSpeak(worker, code);
    link.failed(worker, withHosts(error.what(), cores), code);
    MpiSession::abort(code);
  };
  // A supervisor knows its own host.
  const std::optional<MpiPlace> mpiPlace = findMpiPlace(processEnvironment());
  const bool isAtHome = link && mpiPlace && mpiPlace->isOneHost();
  const auto trainAs = [&](Communicator& workers, const RunConfig& config, std::vector<WorkerCores>& cores) {
    Console console(stdout, stderr,
                    terminalOptions(workers.isFirst() ? arguments.verbosity : Verbosity::Quiet));
    Activity activity;
    WorkerSigns signs(link, {.worker = workers.rank(), .workers = &workers, .activity = activity});
    Screen& screen = link ? static_cast<Screen&>(link) : console;
    cores = gatherCores(Channel(workers, kControl));
    const WorkerPlace place{
        .workers = workers, .activity = activity, .cores = coresOfWorker(cores, workers.rank())};
    if (config.pin) keepTo(place.cores.threads);  // threads that read ahead, too
    const std::string note = bindingNote(cores, workers.rank(), static_cast<int>(config.threads));
    if (!note.empty()) screen.warn(note);
    if (!isAtHome) checkGroundOf(workers, context, config, screen);
    return trainAsWorker(context, arguments, place, static_cast<bool>(link), signs, screen);
  };
  try {
    const RunConfig config =
        requestOf(context, arguments, {{"workers", {std::to_string(session.size() * each)}}}).config;
    requireNoSingletons(session.size());
    // The supervisor knows better who stands still; without one, the workers' signs tell sooner.
    const double patience = link ? Communicator::kForEver : patienceOf(config);
    const int code = asTaskWorkers(session, each, patience, [&](Communicator& workers) {
      std::vector<WorkerCores> cores;
      try {
        return trainAs(workers, config, cores);
      } catch (const std::exception& error) {
        fail(workers.rank(), error, cores);
      }
      return kInternalError;
    });
    if (!link) return code;
    link.finished(session.rank(), code);
    return kSuccess;
  } catch (const std::exception& error) {
    fail(session.rank() * each, error, {});
  }
  return kInternalError;
}

// The largest smaller number that the run can have; the same where there is none.
int fewerWorkers(RunConfig config, int workers) {
  for (config.workers = workers - 1; config.workers >= 1; --config.workers) {
    try {
      requireWorkers(config);
      return static_cast<int>(config.workers);
    } catch (const UsageError&) {
      continue;
    }
  }
  return workers;
}

int superviseTraining(const TrainArguments& arguments, Request request) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  SupervisorOptions options{.common = supervisionOf(arguments, request, console)};
  if (request.config.elastic) {
    options.fewer = [config = request.config](int workers) { return fewerWorkers(config, workers); };
  }
  const JobDirectory job(request.directory, JobDirectory::Role::Supervisor);
  const int code = supervise(options, job, console);
  console.endProgress();
  return code;
}

// As far as it is known before MPI says it.
int taskCount(const Launcher& launcher) {
  if (const auto* step = std::get_if<SlurmStep>(&launcher)) return static_cast<int>(step->tasks.tasks.size());
  if (const auto* place = std::get_if<MpiPlace>(&launcher)) return place->size.value_or(1);
  return 1;
}

bool hasServerTasks(const RunContext& context, const TrainArguments& arguments, int tasks) {
  if (arguments.place.serverTasks) return true;
  const int workers = tasks * std::max(1, arguments.workersPerTask);
  try {
    return hasCenter(requestOf(context, arguments, asOneEach(workers)).config);
  } catch (const UsageError&) {
    return false;  // said again where the tasks speak with one voice
  }
}

void requireNoServerTasks(const TrainArguments& arguments) {
  if (!arguments.place.serverTasks && !arguments.place.serverPort) return;
  throw UsageError(
      fmt::format("{} is for tasks that srun or mpirun has started, and this process is none; leave it out",
                  arguments.place.serverTasks ? "--server-tasks" : "--server-port"));
}

void requireNoAdmission(const TrainArguments& arguments) {
  if (arguments.credentials.empty() && !arguments.insecure) return;
  throw UsageError(
      fmt::format("{} is for a worker that joins a center: give --join HOST:PORT,... too, or leave it out",
                  arguments.insecure ? "--insecure" : "--credentials"));
}

}  // namespace

int trainAmong(const RunContext& context, const TrainArguments& arguments, Communicator& workers,
               Screen& screen) {
  Activity activity;
  SupervisorLink nobody("");
  WorkerSigns signs(nobody, {.worker = workers.rank(), .workers = &workers, .activity = activity});
  const std::vector<WorkerCores> cores = gatherCores(Channel(workers, kControl));
  const RunConfig config =
      requestOf(context, arguments, {{"workers", {std::to_string(workers.size())}}}).config;
  checkGroundOf(workers, context, config, screen);
  const WorkerPlace place{
      .workers = workers, .activity = activity, .cores = coresOfWorker(cores, workers.rank())};
  if (config.pin) keepTo(place.cores.threads);
  return trainAsWorker(context, arguments, place, false, signs, screen);
}

void requireNoSingletons(int mpiSize) {
  const std::string note = singletonsNote(processEnvironment(), mpiSize);
  if (!note.empty()) throw UsageError(note);
}

void endAllTasks(int rank, const std::exception& error, const std::vector<WorkerCores>& workers) {
  const int code = exitCodeOf(error);
  letFirstSpeak(rank, code);
  endLiveLine();
  std::fprintf(stderr, "cohort: worker %d: %s\n", rank, withHosts(error.what(), workers).c_str());
  letOthersSpeak(code);
  MpiSession::abort(code);
}

int trainCommand(const RunContext& context, const TrainArguments& arguments) {
  // SLURM's tasks may be told twice: by the batch script, and by SLURM itself.
  if (isSet(processEnvironment(), "SLURM_STEP_ID")) ignoreFurtherSignals();
  if (wantsVirtual(arguments)) {
    const Launcher launcher = findLauncher(processEnvironment(), arguments.place.hosts);
    if (std::holds_alternative<NamedCluster>(launcher)) {
      throw UsageError("--virtual has all workers in one process; leave --worker-hosts and TF_CONFIG out");
    }
    return trainVirtually(context, arguments, taskCount(launcher));
  }
  const bool isSupervised = std::getenv(kSupervisorVariable) != nullptr;
  if (!isSupervised) requireTask(arguments.workersPerTask, !arguments.join.empty());
  if (!arguments.join.empty()) return trainAsJoined(context, arguments);
  // Whom a supervisor has started is in no other cluster than its own.
  if (isSupervised) return trainUnderMpi(context, arguments);
  const Launcher launcher = findLauncher(processEnvironment(), arguments.place.hosts);
  const auto* const named = std::get_if<NamedCluster>(&launcher);
  if (named != nullptr && named->cluster.self().role == Role::Evaluator)
    return evaluateAsTheyCome(context, arguments, named->cluster);
  const bool isAlone = named != nullptr && named->cluster.members.size() == 1;
  if (named != nullptr && !isAlone) {
    requireNoServerTasks(arguments);
    requireNoTaskWorkers(arguments.workersPerTask);
    return trainAsNamed(context, arguments, named->cluster);
  }
  if (!isAlone && startedByMpi()) {
    if (hasServerTasks(context, arguments, taskCount(launcher))) return trainAsTask(context, arguments);
    requireNoAdmission(arguments);
    return trainUnderMpi(context, arguments);
  }
  requireNoServerTasks(arguments);
  requireNoAdmission(arguments);
  requireNoSingletons(1);
  Request request = requestOf(context, arguments);
  if (request.config.virtualWorkers > 0) return trainVirtually(context, arguments, 1);
  if (hasCenter(request.config)) return superviseWithCenter(arguments, std::move(request));
  if (request.config.workers > 1) return superviseTraining(arguments, std::move(request));
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  Communicator alone;
  Activity activity;
  stopOnSignals();  // before there are other threads
  SupervisorLink nobody("");
  WorkerSigns signs(nobody, {.workers = &alone, .activity = activity});
  return trainAsWorker(context, arguments, {.workers = alone, .activity = activity}, false, signs, console);
}

int evaluateCommand(const RunContext& context, const EvaluateArguments& arguments) {
  Console console(stdout, stderr, {});
  ConsoleObserver observer(console);
  const EvaluationResult result = runEvaluation(context, arguments.jobDirectory, arguments.checkpoint,
                                                arguments.split, arguments.threads, observer);
  console.print(fmt::format("checkpoint {}", result.checkpoint.string()));
  console.print(fmt::format("step {}", result.step));
  console.print(fmt::format("{} {} samples: loss {:.6f}, top-1 {:.4f}, top-5 {:.4f}", result.sums.samples,
                            arguments.split, result.sums.meanLoss(), result.sums.accuracy(),
                            result.sums.top5Accuracy()));
  console.print(fmt::format("weights {}", result.weightsHash));
  return kSuccess;
}

}  // namespace cohort
