#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "launch/folders.h"
#include "launch/run_program.h"
#include "report/receipt_file.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/job_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::vector<Receipt> receiptsOf(const fs::path& run) {
  std::error_code ignored;
  if (!fs::exists(run / "receipt.jsonl", ignored)) {
    throw UsageError(
        fmt::format("{} has no receipt.jsonl: it is no run's folder, was made with --receipt-every 0, or "
                    "with a rule whose runs have none "
                    "(async, ssp, backup)",
                    run.string()));
  }
  return readReceipts(run / "receipt.jsonl");
}

struct Steps {
  Step first = 0;
  Step last = 0;
};

Steps parseSteps(const std::string& text) {
  Steps steps;
  const std::size_t colon = text.find(':');
  const auto number = [&](std::size_t begin, std::size_t end, Step& value) {
    const auto [stopped, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    return error == std::errc() && stopped == text.data() + end && value >= 0;
  };
  if (colon == std::string::npos || !number(0, colon, steps.first) ||
      !number(colon + 1, text.size(), steps.last) || steps.first >= steps.last) {
    throw UsageError(fmt::format("--replay takes FROM:TO, two steps such as 1000:1500, not '{}'", text));
  }
  return steps;
}

fs::path checkpointOf(const fs::path& run, Step step) {
  std::vector<Step> there;
  for (const CheckpointFile& file : listCheckpoints(run / "checkpoints")) {
    if (file.step == step) return file.path;
    there.push_back(file.step);
  }
  throw UsageError(there.empty()
                       ? fmt::format("{} has no checkpoints to replay from", run.string())
                       : fmt::format("{} has no checkpoint of step {}; it has those of {} (see --keep)",
                                     run.string(), step, fmt::join(there, ", ")));
}

void copyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error)
    throw IoError(fmt::format("cannot copy {} to {}: {}", from.string(), to.string(), error.message()));
}

int tell(const Comparison& comparison, const std::string& a, const std::string& b) {
  if (comparison.equal.empty() && comparison.different.empty()) {
    throw UsageError(fmt::format("{} and {} have no receipts of the same steps; see --receipt-every", a, b));
  }
  if (comparison.different.empty()) {
    fmt::print("equal: {} receipts, of steps {} to {}\n", comparison.equal.size(), comparison.equal.front(),
               comparison.equal.back());
    return kSuccess;
  }
  const bool isParameter = comparison.what != "loss" && comparison.what != "weights";
  fmt::print("different from step {} on: the {} differ{}\n", comparison.different.front(),
             isParameter ? "weights" : comparison.what,
             isParameter ? fmt::format(", first in {}", comparison.what) : "");
  return kDiffers;
}

RunConfig configFrom(const std::string& yaml, const fs::path& source) {
  RunConfig config;
  applySettings(config, settingsFromYaml(yaml, source.string()));
  return config;
}

// Steps up to a last one, and the configuration that they were computed with.
struct Stretch {
  Step last = 0;
  RunConfig config;
};

// In order, from the step after the first one until all are there. A checkpoint keeps the configuration of the steps before it; steps
// after the last one have what the run has now. (A run may go on with other workers, which divide the network otherwise.)
std::vector<Stretch> stretchesOf(const fs::path& run, const Steps& steps) {
  const std::optional<std::string> stored = storedConfig(run);
  const RunConfig now = stored ? configFrom(*stored, run / "config.yaml") : RunConfig{};
  std::vector<Stretch> stretches;
  for (const CheckpointFile& file : listCheckpoints(run / "checkpoints")) {
    if (file.step <= steps.first) continue;
    try {
      RunConfig then = configFrom(configOfCheckpoint(file.path), file.path);
      then.dataDir = now.dataDir;  // where the files are now
      stretches.push_back({file.step, std::move(then)});
    } catch (const IoError&) {
      continue;  // it is damaged, and the run had no use for it either
    }
    if (file.step >= steps.last) return stretches;
  }
  stretches.push_back({steps.last, now});
  return stretches;
}

// Whether the bits are those of so many workers: they divide the network, step alone, or round what they send.
bool dependsOnWorkers(const RunConfig& config) {
  return splitsModel(config) || config.sync == "local" || config.sync == "diloco" || config.wire != "fp32";
}

// What of a configuration decides who computes what, as far as it shows in the bits.
std::string divisionOf(const RunConfig& config) {
  if (!dependsOnWorkers(config)) return "data";
  const Mesh mesh = meshOf(config, static_cast<int>(config.workers));
  if (splitsModel(config) && mesh.model > 1) {
    return fmt::format("{} over {}", toText(strategyOf(config)), toText(mesh));
  }
  return fmt::format("data over {} worker{}", config.workers, config.workers == 1 ? "" : "s");
}

void requireOwnWorkers(const VerifyArguments& arguments, const fs::path& run, const RunConfig& config) {
  if (arguments.workers == 0 || arguments.workers == config.workers) return;
  throw UsageError(fmt::format(
      "{} has the bits of a run that was divided as {}, and other workers have other bits; leave --workers "
      "out, or give --workers {}",
      run.string(), divisionOf(config), config.workers));
}

void requireOneDivision(const fs::path& run, const Steps& steps, const std::vector<Stretch>& stretches) {
  const std::string first = divisionOf(stretches.front().config);
  for (std::size_t i = 1; i < stretches.size(); ++i) {
    const std::string division = divisionOf(stretches[i].config);
    if (division == first) continue;
    const Step last = stretches[i - 1].last;
    throw UsageError(
        fmt::format("{0} went on after step {1} divided otherwise ({2}, then {3}), and a replay is "
                    "divided in one way; give --replay {4}:{1}, and another for the steps after it",
                    run.string(), last, first, division, steps.first));
  }
}

// The run's configuration for its replay: without a center, whose servers add gradients in the order of the one tree too.
// UsageError where another run would have other bits.
RunConfig replayConfig(const VerifyArguments& arguments, const fs::path& run, const Steps& steps) {
  const std::vector<Stretch> stretches = stretchesOf(run, steps);
  requireOneDivision(run, steps, stretches);
  RunConfig config = stretches.front().config;
  const bool isReserved = config.sync == "backup" && config.backups > 0;
  if (centerRule(config) == "async" || centerRule(config) == "ssp" || isReserved) {
    throw UsageError(fmt::format(
        "{0} cannot be replayed exactly from a checkpoint: with --sync {1}{2} its bits depend on when "
        "gradients "
        "came, which cohort replay {0} knows",
        run.string(), config.sync, isReserved ? fmt::format(" --backups {}", config.backups) : ""));
  }
  if (config.sync == "backup") config.sync = "bsp";  // which waits for all as well
  config.servers = 0;
  config.elastic = false;
  if (dependsOnWorkers(config)) {
    requireOwnWorkers(arguments, run, config);
  } else {
    config.mesh.clear();
    config.workers = std::max(1, arguments.workers);
  }
  return config;
}

int verifyReplay(const VerifyArguments& arguments) {
  const fs::path run = arguments.runs.front();
  const Steps steps = parseSteps(arguments.replay);
  const RunConfig config = replayConfig(arguments, run, steps);
  const std::vector<Receipt> expected = receiptsOf(run);
  const fs::path checkpoint = checkpointOf(run, steps.first);
  const ScratchFolder scratch(fs::absolute(run).parent_path() / "replay");
  const fs::path job = scratch.path() / "job";
  makeFolder(job / "checkpoints");
  writeWholeFile(job / "config.yaml", toYaml(config));
  copyFile(checkpoint, job / "checkpoints" / checkpoint.filename());
  runProgram(
      {"cohort", "train", "--job-dir", job.string(), "--train-steps", std::to_string(steps.last), "--workers",
       std::to_string(config.workers), "--checkpoint-every", "0", "--eval-every", "0", "--quiet"},
      scratch.path() / "log.txt", stopOnSignals());
  const Comparison comparison = compareReceipts(expected, receiptsOf(job), steps.first + 1, steps.last);
  return tell(comparison, run.string(), fmt::format("its replay on {} workers", config.workers));
}

}  // namespace

int verifyCommand(const VerifyArguments& arguments) {
  if (!arguments.replay.empty()) {
    if (arguments.runs.size() != 1)
      throw UsageError("--replay compares one run with itself; give one folder");
    return verifyReplay(arguments);
  }
  if (arguments.runs.size() != 2)
    throw UsageError("verify compares two runs; give two folders, or one with --replay FROM:TO");
  const Comparison comparison = compareReceipts(receiptsOf(arguments.runs[0]), receiptsOf(arguments.runs[1]),
                                                0, std::numeric_limits<Step>::max());
  return tell(comparison, arguments.runs[0], arguments.runs[1]);
}

}  // namespace cohort
