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
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "cluster/singletons.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "launch/supervisor.h"
#include "launch/supervisor_link.h"
#include "launch/worker_cores.h"
#include "launch/worker_log.h"
#include "report/console.h"
#include "train/config_file.h"
#include "train/run.h"

namespace cohort {
namespace {

constexpr int kControl = 0;  // the channel of everything but checkpoints

// In place: others hold locks on this very file.
void writeTestimony(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
    throw IoError(fmt::format("cannot write {}", path.string()));
  }
}

// Folders of one name on several machines would each get a part of every checkpoint.
void requireSharedDirectory(const Channel& channel, const std::filesystem::path& directory) {
  if (channel.workers().size() == 1) return;
  const std::filesystem::path file = directory / "workers.lock";
  const std::string token =
      fmt::format("{} {}\n", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  if (channel.workers().isFirst()) writeTestimony(file, token);
  const std::string mark = channel.broadcast(token, "the job directory's mark");
  if (readWholeFile(file) == mark) return;
  throw UsageError(fmt::format(
      "the job directory {} of worker {} on {} is not the one of worker 0; give one that all share",
      directory.string(), channel.workers().rank(), hostName()));
}

// Trains as the worker at this place; the first one shows it on `screen`.
int trainAsWorker(const RunContext& context, const TrainArguments& arguments, const WorkerPlace& place,
                  bool isSupervised, Screen& screen) {
  Communicator& workers = place.workers;
  const StopFlag& stop = stopOnSignals();
  const Channel channel(workers, kControl);
  Request request = requestOf(context, arguments, {{"workers", {std::to_string(workers.size())}}});
  std::optional<JobDirectory> job;
  if (workers.isFirst()) {
    printNotes(screen, arguments, request.config);
    if (!isSupervised) sayUnsupervised(screen, arguments);
    if (request.directory.empty()) request.directory = newJobDirectory(request.config.network);
    job.emplace(request.directory, isSupervised ? JobDirectory::Role::Member : JobDirectory::Role::First);
    printPlan(screen, request.config, request.directory);
  }
  request.directory = channel.broadcast(request.directory.string(), "the job directory's name");
  if (!workers.isFirst()) job.emplace(request.directory, JobDirectory::Role::Member);
  requireSharedDirectory(channel, request.directory);

  Observers observers;
  ConsoleObserver console(screen);
  std::optional<WorkerLog> log;
  if (workers.isFirst()) observers.add(console);
  if (workers.size() > 1 || isSupervised) {
    observers.add(log.emplace(request.directory, std::to_string(workers.rank())));
    if (isSupervised) log->takeOutput();
  }
  const RunSummary summary =
      runTraining(context, std::move(request.config), *job, stop, arguments.processStart, observers, place);
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

// While it lives, the supervisor is told of this worker.
class Watch {
 public:
  Watch(SupervisorLink& link, Communicator& workers, const Activity& activity) : link_(link) {
    link.watch(workers, activity);
  }
  ~Watch() { link_.unwatch(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  SupervisorLink& link_;
};

// N tasks that each train the whole run in the same folder are never what somebody wanted.
void requireNoSingletons(int mpiSize) {
  const std::string note = singletonsNote(processEnvironment(), mpiSize);
  if (!note.empty()) throw UsageError(note);
}

// Started by mpirun, workers have nobody who would start servers, and would do something else than they were told.
void requireNoCenter(const RunConfig& config) {
  if (!hasCenter(config)) return;
  throw UsageError(fmt::format(
      "--{} is training with a center, which workers that mpirun starts do not have; leave mpirun out "
      "(cohort train --workers N "
      "starts all), give each worker the servers to --join, or train without a center{}",
      config.servers > 0 ? fmt::format("servers {}", config.servers) : fmt::format("sync {}", config.sync),
      config.sync == "bsp" ? " (--servers 0)" : ""));
}

// Trains as one of several that mpirun (or the like) has started. A worker that fails ends all, after its last words.
int trainUnderMpi(const RunContext& context, const TrainArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  Activity activity;
  SupervisorLink link(fifo == nullptr ? "" : fifo);
  if (link) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (link) ignoreFurtherSignals();
  stopOnSignals();  // before MPI makes threads
  const MpiSession session;
  setCrashWorker(session.rank());
  const auto fail = [&](const std::string& sentence, int code) {
    letFirstSpeak(session.rank(), code);
    if (link) {
      link.failed(session.rank(), sentence, code);
    } else {
      endLiveLine();
      std::fprintf(stderr, "cohort: worker %d: %s\n", session.rank(), sentence.c_str());
    }
    MpiSession::abort(code);
  };
  try {
    Console console(stdout, stderr,
                    terminalOptions(session.rank() == 0 ? arguments.verbosity : Verbosity::Quiet));
    const RunConfig config =
        requestOf(context, arguments, {{"workers", {std::to_string(session.size())}}}).config;
    requireNoSingletons(session.size());
    requireNoCenter(config);
    // The supervisor knows better who stands still.
    Communicator workers(
        mpiTransport(session),
        link ? Communicator::kForEver : std::max(Communicator::kDefaultPatience, config.stallTimeout));
    const Watch watch(link, workers, activity);
    Screen& screen = link ? static_cast<Screen&>(link) : console;
    const std::vector<WorkerCores> cores = gatherCores(Channel(workers, kControl));
    const WorkerPlace place{
        .workers = workers, .activity = activity, .cores = coresOfWorker(cores, session.rank())};
    const std::string note = bindingNote(cores, session.rank(), static_cast<int>(config.threads));
    if (!note.empty()) screen.warn(note);
    const int code = trainAsWorker(context, arguments, place, static_cast<bool>(link), screen);
    if (!link) return code;
    link.finished(session.rank(), code);
    return kSuccess;
  } catch (const std::exception& error) {
    fail(error.what(), exitCodeOf(error));
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

}  // namespace

int trainCommand(const RunContext& context, const TrainArguments& arguments) {
  if (!arguments.join.empty()) return trainAsJoined(context, arguments);
  if (!arguments.credentials.empty() || arguments.insecure) {
    throw UsageError(
        fmt::format("{} is for a worker that joins a center: give --join HOST:PORT,... too, or leave it out",
                    arguments.insecure ? "--insecure" : "--credentials"));
  }
  if (startedByMpi()) return trainUnderMpi(context, arguments);
  requireNoSingletons(1);
  Request request = requestOf(context, arguments);
  if (hasCenter(request.config)) return superviseWithCenter(arguments, std::move(request));
  if (request.config.workers > 1) return superviseTraining(arguments, std::move(request));
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  Communicator alone;
  Activity activity;
  return trainAsWorker(context, arguments, {.workers = alone, .activity = activity}, false, console);
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
