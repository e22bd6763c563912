#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/crash_point.h"
#include "base/error.h"
#include "base/host.h"
#include "center/client.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/console_observer.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "launch/center_supervisor.h"
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

// Empty: nobody says.
std::string jobDirectoryOf(const std::vector<GivenSettings>& layers) {
  std::string directory;
  for (const GivenSettings& layer : layers) {
    const auto found = layer.find(kJobDirectory);
    if (found == layer.end()) continue;
    directory = found->second.back();
    if (directory.empty()) throw UsageError("--job-dir needs a folder's name; without it a new one is made");
  }
  return directory;
}

// What is asked for, and where: made by whoever leads the run.
struct Request {
  std::filesystem::path directory{};
  RunConfig config{};
};

// `workers`: as many as there are, whatever the settings say; 0 where those decide.
Request requestOf(const RunContext& context, const TrainArguments& arguments, int workers = 0) {
  Request request{.directory = jobDirectoryOf(arguments.layers)};
  const auto stored = request.directory.empty() ? std::nullopt : storedConfig(request.directory);
  std::vector<GivenSettings> layers = arguments.layers;
  if (workers > 0) layers.push_back({{"workers", {std::to_string(workers)}}});
  request.config = resolveLayers(context.networks, stored, layers);
  return request;
}

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

bool isGiven(const TrainArguments& arguments, const char* setting) {
  return std::ranges::any_of(arguments.layers,
                             [&](const GivenSettings& layer) { return layer.contains(setting); });
}

void sayIdleSettings(Screen& screen, const TrainArguments& arguments) {
  for (const char* setting : {"chaos", "elastic", "max-restarts", "stall-timeout"}) {
    if (isGiven(arguments, setting)) {
      screen.print(fmt::format(
          "note: {} has no effect here: only cohort train --workers N supervises its workers", setting));
    }
  }
}

// Trains as the worker at this place; the first one shows it on `screen`.
int trainAsWorker(const RunContext& context, const TrainArguments& arguments, const WorkerPlace& place,
                  bool isSupervised, Screen& screen) {
  Communicator& workers = place.workers;
  const StopFlag& stop = stopOnSignals();
  const Channel channel(workers, kControl);
  Request request = requestOf(context, arguments, workers.size());
  std::optional<JobDirectory> job;
  if (workers.isFirst()) {
    for (const std::string& note : arguments.notes) screen.print("note: " + note);
    if (!isSupervised) sayIdleSettings(screen, arguments);
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
    observers.add(log.emplace(request.directory, workers.rank()));
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

constexpr double kForEver = 1e9;  // seconds

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
    // What all workers notice at once, the first one says.
    if (session.rank() > 0 && code == kUsageError)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
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
    const RunConfig config = requestOf(context, arguments, session.size()).config;
    // The supervisor knows better who stands still.
    Communicator workers(mpiTransport(session),
                         link ? kForEver : std::max(Communicator::kDefaultPatience, config.stallTimeout));
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
  } catch (const UsageError& error) {
    fail(error.what(), kUsageError);
  } catch (const IoError& error) {
    fail(error.what(), kIoError);
  } catch (const PeerError& error) {
    fail(error.what(), kPeerError);
  } catch (const std::exception& error) {
    fail(error.what(), kInternalError);
  }
  return kInternalError;
}

// ---- with a center

std::optional<Credentials> joinCredentials(const TrainArguments& arguments,
                                           const std::vector<std::string>& addresses) {
  if (!arguments.credentials.empty()) return readCredentials(arguments.credentials);
  const auto foreign = std::ranges::find_if_not(addresses, isPrivateAddress);
  if (foreign == addresses.end() || arguments.insecure) return std::nullopt;
  throw UsageError(
      fmt::format("{} is on another machine: give --credentials FILE, which the first server has made in its "
                  "job directory "
                  "(or --insecure, where its servers have that too)",
                  *foreign));
}

// Of the workers that share this machine's cores, this is number `worker`.
std::vector<int> coresInCenter(int worker, int workers) {
  const WorkerCores own{.host = hostName(), .online = onlineCores(), .allowed = allowedCores()};
  return coresOfWorker(std::vector<WorkerCores>(static_cast<std::size_t>(workers), own), worker);
}

int trainInCenter(const RunContext& context, const TrainArguments& arguments, SupervisorLink& link,
                  int worker) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  Screen& screen = link ? static_cast<Screen&>(link) : console;
  const std::vector<std::string> addresses = parseAddresses(arguments.join, "--join");
  Request request = requestOf(context, arguments);
  request.config.servers = static_cast<std::int64_t>(addresses.size());
  if (!hasCenter(request.config) || request.config.sync == "local" || request.config.sync == "diloco") {
    throw UsageError(
        fmt::format("--sync {} has no center to join; use bsp, async, ssp or backup", request.config.sync));
  }
  if (request.directory.empty()) request.directory = newJobDirectory(request.config.network);
  const JobDirectory job(request.directory, link ? JobDirectory::Role::Member : JobDirectory::Role::Joined);
  Activity activity;
  link.watch(worker, activity);
  Observers observers;
  ConsoleObserver shown(screen);
  std::optional<WorkerLog> log;
  if (!link || worker == 0) printPlan(screen, request.config, request.directory);
  observers.add(shown);
  observers.add(log.emplace(request.directory, worker));
  if (link) log->takeOutput();
  const int workers = link ? static_cast<int>(request.config.workers) : 1;
  // A signal to all processes at once is the supervisor's to deal with: a worker that left would write no checkpoint.
  static const StopFlag kNever = false;
  const RunSummary summary =
      runWithCenter(context, std::move(request.config), job, link ? kNever : stopOnSignals(),
                    arguments.processStart, observers,
                    {.servers = connectorTo(addresses, joinCredentials(arguments, addresses)),
                     .activity = activity,
                     .cores = coresInCenter(worker, workers),
                     .name = fmt::format("{}:{}", hostName(), getpid()),
                     .isFirst = !link || worker == 0});
  link.unwatch();
  if (summary.isChief) {
    screen.endProgress();
    printSummary(screen, summary);
    if (summary.interrupted) {
      screen.result(fmt::format("stopped by a signal; go on with: cohort train --job-dir {}",
                                request.directory.string()));
    }
  } else if (!link) {
    screen.result(summary.interrupted ? "left the run, which goes on" : "the run is over");
  }
  return summary.interrupted ? kResume : kSuccess;
}

int trainAsJoined(const RunContext& context, const TrainArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  const char* number = std::getenv(kWorkerVariable);
  const auto worker = number == nullptr ? 0 : static_cast<int>(std::strtol(number, nullptr, 10));
  stopOnSignals();  // before gRPC makes threads
  keepLargeBlocks();
  SupervisorLink link(fifo == nullptr ? "" : fifo);
  if (!link) return trainInCenter(context, arguments, link, worker);
  ignoreFurtherSignals();
  setCrashWorker(worker);
  const auto fail = [&](const std::string& sentence, int code) {
    link.failed(worker, sentence, code);
    return code;
  };
  try {
    return trainInCenter(context, arguments, link, worker);
  } catch (const UsageError& error) {
    return fail(error.what(), kUsageError);
  } catch (const IoError& error) {
    return fail(error.what(), kIoError);
  } catch (const PeerError& error) {
    return fail(error.what(), kPeerError);
  } catch (const std::exception& error) {
    return fail(error.what(), kInternalError);
  }
}

// What a supervisor's workers are started with, and where.
struct Started {
  std::filesystem::path directory;
  std::vector<std::string> words;
};

Started startedWith(const TrainArguments& arguments, const Request& request, Screen& screen) {
  Started started{.directory = request.directory, .words = arguments.words};
  if (started.directory.empty()) {
    started.directory = newJobDirectory(request.config.network);
    started.words.insert(started.words.end(), {"--job-dir", started.directory.string()});
    screen.print(fmt::format("job directory {}", started.directory.string()));
  }
  // As many images in a step, however many workers there will be.
  if (isGiven(arguments, "batch-per-worker")) {
    started.words.insert(started.words.end(), {"-o", "batch-per-worker=0", "-o",
                                               fmt::format("batch-size={}", request.config.batchSize)});
  }
  return started;
}

std::string ownProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

int superviseWithCenter(const TrainArguments& arguments, const Request& request) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  const Started started = startedWith(arguments, request, console);
  if (isGiven(arguments, "elastic")) {
    console.print("note: elastic has no effect here: workers of a center come and go by themselves");
  }
  CenterSupervisorOptions options{
      .program = ownProgram(),
      .workerCommand = started.words,
      .workers = static_cast<int>(request.config.workers),
      .servers = static_cast<int>(std::max<std::int64_t>(1, request.config.servers)),
      .maxRestarts = static_cast<int>(request.config.maxRestarts),
      .stallSeconds = request.config.stallTimeout,
      .snapshotSeconds = request.config.snapshotEvery};
  if (!request.config.chaos.empty()) options.chaos = std::stoull(request.config.chaos);
  const JobDirectory job(started.directory, JobDirectory::Role::Supervisor);
  const int code = superviseCenter(options, job, console);
  console.endProgress();
  return code;
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

int superviseTraining(const TrainArguments& arguments, const Request& request) {
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  const Started started = startedWith(arguments, request, console);
  SupervisorOptions options{.command = {ownProgram()},
                            .workers = static_cast<int>(request.config.workers),
                            .maxRestarts = static_cast<int>(request.config.maxRestarts),
                            .stallSeconds = request.config.stallTimeout};
  options.command.insert(options.command.end(), started.words.begin(), started.words.end());
  if (request.config.elastic) {
    options.fewer = [config = request.config](int workers) { return fewerWorkers(config, workers); };
  }
  if (!request.config.chaos.empty()) options.chaos = std::stoull(request.config.chaos);
  const JobDirectory job(started.directory, JobDirectory::Role::Supervisor);
  const int code = supervise(options, job, console);
  console.endProgress();
  return code;
}

}  // namespace

int trainCommand(const RunContext& context, const TrainArguments& arguments) {
  if (!arguments.join.empty()) return trainAsJoined(context, arguments);
  if (startedByMpi()) return trainUnderMpi(context, arguments);
  const Request request = requestOf(context, arguments);
  if (hasCenter(request.config)) return superviseWithCenter(arguments, request);
  if (request.config.workers > 1) return superviseTraining(arguments, request);
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
