// cohort replay: a run with a center, computed again from its servers' journals.
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "report/console.h"
#include "train/replay.h"

namespace cohort {
namespace {

std::string counted(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", groupedText(count), what, count == 1 ? "" : "s");
}

}  // namespace

int replayCommand(const RunContext& context, const ReplayArguments& arguments) {
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  ReplayOptions options{.run = arguments.run,
                        .folders = {arguments.folders.begin(), arguments.folders.end()},
                        .threads = arguments.threads};
  std::int64_t shown = -1;
  options.progressed = [&](std::int64_t done, std::int64_t all) {
    const std::int64_t percent = 100 * done / all;
    if (!console.live() || std::exchange(shown, percent) == percent) return;
    console.status(fmt::format("replaying: {} of {}", groupedText(done), counted(all, "update")));
  };
  options.note = [&](const std::string& note) { console.print("note: " + note); };
  const ReplayResult result = replayRun(context, options);
  console.endProgress();
  const bool isSame = result.difference.empty();
  console.result(fmt::format("replayed steps {} to {} in {:.1f} s: {} of {}, {}, {} of servers, {} lost",
                             result.first, result.last, result.seconds, counted(result.updates, "update"),
                             counted(result.computed, "gradient"), counted(result.openings, "opening"),
                             result.lives == 1 ? "1 life" : fmt::format("{} lives", result.lives),
                             counted(result.lost, "update")));
  if (!isSame) {
    console.result("different: " + result.difference);
    return kDiffers;
  }
  console.result(fmt::format("identical to the checkpoint{} of step{} {}", result.same.size() == 1 ? "" : "s",
                             result.same.size() == 1 ? "" : "s", fmt::join(result.same, ", ")));
  console.result(fmt::format("weights {}", result.weightsHash));
  return kSuccess;
}

}  // namespace cohort
