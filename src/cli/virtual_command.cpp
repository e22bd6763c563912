// cohort train --virtual: all workers in this process, in virtual time.
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/console_observer.h"
#include "cli/exit_code.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "cluster/launcher.h"
#include "comm/communicator.h"
#include "train/virtual_training.h"

namespace cohort {
namespace {

// What brings several processes together.
void requireOneProcess(const TrainArguments& arguments, int tasks) {
  const auto refuse = [](const std::string& what) {
    throw UsageError(fmt::format("--virtual has all workers in one process; leave {} out", what));
  };
  if (tasks > 1) {
    throw UsageError(
        fmt::format("--virtual has all workers in one process, and this is one of {} tasks; start it without "
                    "mpirun or srun, or with one task",
                    tasks));
  }
  if (!arguments.join.empty()) refuse("--join");
  if (!arguments.credentials.empty() || arguments.insecure) refuse("--credentials and --insecure");
  if (arguments.workersPerTask > 0) refuse("--workers-per-task");
  if (arguments.place.serverTasks || arguments.place.serverPort) refuse("--server-tasks and --server-port");
}

// How virtual time went.
void printVirtual(Screen& screen, const RunSummary::Virtual& run) {
  const VirtualOutcome& all = run.outcome;
  screen.result(
      fmt::format("{:.3f} virtual seconds for {} samples on {} workers: {:.1f} images a virtual second",
                  secondsOf(all.time), groupedText(run.samples), run.workers, run.samplesPerSecond()));
  for (const VirtualOutcome::Class& own : all.classes) {
    const auto each = [&](VirtualTime time) { return secondsOf(time) / own.workers; };
    screen.print(fmt::format(
        "{} {}: {} works; each computed {:.3f} s, waited for others {:.3f} s, was away {:.3f} s", own.workers,
        own.name, own.works, each(own.computing), each(own.waiting), each(own.away)));
  }
  if (!all.staleness.empty()) {
    double sum = 0;
    std::int64_t updates = 0;
    for (const auto& [staleness, count] : all.staleness) {
      sum += static_cast<double>(staleness) * static_cast<double>(count);
      updates += count;
    }
    screen.print(fmt::format("staleness: {:.2f} on average, {} at most", sum / static_cast<double>(updates),
                             all.staleness.rbegin()->first));
  }
  screen.print(fmt::format("{} moved; failures {}, works lost {}, too late {}",
                           bytesText(static_cast<double>(all.bytes)), all.failures, all.lost, all.dropped));
}

}  // namespace

bool wantsVirtual(const TrainArguments& arguments) {
  return givenText(arguments, "virtual").value_or("0") != "0";
}

int trainVirtually(const RunContext& context, const TrainArguments& arguments, int tasks) {
  requireOneProcess(arguments, tasks);
  Request request = requestOf(context, arguments);
  Console screen(stdout, stderr, terminalOptions(arguments.verbosity));
  printNotes(screen, arguments, request.config);
  sayIdle(screen, arguments, {"max-restarts", "stall-timeout", "recovery-wait", "snapshot-every"},
          "virtual workers fail as the file of --cluster says");
  if (request.directory.empty()) {
    request.directory = newJobDirectory(request.config.network);
  } else if (storedConfig(request.directory)) {
    throw UsageError(
        fmt::format("{} has a run already, and virtual runs always start anew; give another --job-dir",
                    request.directory.string()));
  }
  const JobDirectory job(request.directory);
  printPlan(screen, request.config, request.directory);
  const StopFlag& stop = stopOnSignals();
  Communicator alone;
  Activity activity;
  ConsoleObserver observer(screen);
  const RunSummary summary =
      runVirtually(context, std::move(request.config), job, stop, arguments.processStart, observer,
                   {.workers = alone, .activity = activity});
  screen.endProgress();
  printSummary(screen, summary);
  if (summary.inVirtualTime) printVirtual(screen, *summary.inVirtualTime);
  if (!summary.interrupted) return kSuccess;
  screen.result("stopped by a signal; virtual runs cannot go on later: start it anew with another --job-dir");
  return kStopped;
}

}  // namespace cohort
