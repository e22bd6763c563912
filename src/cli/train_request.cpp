#include "cli/train_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/communicator.h"
#include "launch/run_program.h"
#include "train/config_file.h"

namespace cohort {
namespace {

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

// What is said of the network's division, and changes nothing.
void sayIdleDivision(Screen& screen, const TrainArguments& arguments, const RunConfig& config) {
  const int workers = static_cast<int>(config.workers);
  std::string why = "every layer is split by data";
  if (splitsModel(config)) {
    if (meshOf(config, workers).model > 1) return;
    why = workers == 1 ? "one worker has the whole network (--workers N)"
                       : "a group of one worker has the whole network (--mesh)";
    if (config.parallel != "data") sayIdle(screen, arguments, {"parallel"}, why);
  }
  if (!config.splits.empty()) sayIdle(screen, arguments, {"split"}, why);
  if (!config.mesh.empty() && !splitsModel(config)) sayIdle(screen, arguments, {"mesh"}, why);
}

}  // namespace

Request requestOf(const RunContext& context, const TrainArguments& arguments, const GivenSettings& more) {
  Request request{.directory = jobDirectoryOf(arguments.layers)};
  const auto stored = request.directory.empty() ? std::nullopt : storedConfig(request.directory);
  std::vector<GivenSettings> layers = arguments.layers;
  layers.push_back(more);
  request.config = resolveLayers(context.networks, stored, layers, context.rules);
  return request;
}

bool isGiven(const TrainArguments& arguments, const char* setting) {
  return givenText(arguments, setting).has_value();
}

std::optional<std::string> givenText(const TrainArguments& arguments, const char* setting) {
  std::optional<std::string> text;
  for (const GivenSettings& layer : arguments.layers) {
    const auto found = layer.find(setting);
    if (found != layer.end()) text = found->second.empty() ? "" : found->second.back();
  }
  return text;
}

void printNotes(Screen& screen, const TrainArguments& arguments, const RunConfig& config) {
  for (const std::string& note : arguments.notes) screen.print("note: " + note);
  const RunConfig usual;
  const bool isAlone = stepsAlone(config) && !exchanges(config);
  const bool hasSpring = exchanges(config) && !gossips(config);
  const auto sayOther = [&](const char* setting, bool isUsed, bool isUsual, const char* whose) {
    if (!isUsed && !isUsual) sayIdle(screen, arguments, {setting}, fmt::format("it is for {}", whose));
  };
  sayOther("staleness", config.sync == "ssp", config.staleness == usual.staleness, "--sync ssp");
  sayOther("backups", config.sync == "backup", config.backups == usual.backups, "--sync backup");
  sayOther("scale-stale", isAlone, config.scaleStale == usual.scaleStale, "--sync async and ssp");
  sayOther("groups", config.sync == "group", config.groups == usual.groups, "--sync group");
  sayOther("between", config.sync == "group", config.between == usual.between, "--sync group");
  sayOther("snapshot-every", stepsAlone(config), config.snapshotEvery == usual.snapshotEvery,
           "--sync async, ssp, easgd and gossip");
  sayOther("recovery-wait", hasCenter(config), config.recoveryWait == usual.recoveryWait,
           "runs with a center");
  sayOther("journal", hasCenter(config), config.journal == usual.journal, "runs with a center");
  sayOther("avg-freq", config.sync == "local" || hasSpring, config.avgFreq == usual.avgFreq,
           "--sync local and easgd");
  sayOther("alpha", hasSpring, config.alpha == usual.alpha, "--sync easgd");
  sayOther("probability", gossips(config), config.probability == usual.probability, "--sync gossip");
  const bool isDiloco = config.sync == "diloco";
  sayOther("inner-steps", isDiloco, config.innerSteps == usual.innerSteps, "--sync diloco");
  sayOther("outer-lr", isDiloco, config.outerLearningRate == usual.outerLearningRate, "--sync diloco");
  sayOther("outer-momentum", isDiloco, config.outerMomentum == usual.outerMomentum, "--sync diloco");
  sayIdleDivision(screen, arguments, config);
}

void sayIdle(Screen& screen, const TrainArguments& arguments, const std::vector<const char*>& settings,
             const std::string& why) {
  for (const char* setting : settings) {
    if (isGiven(arguments, setting))
      screen.print(fmt::format("note: {} has no effect here: {}", setting, why));
  }
}

void sayUnsupervised(Screen& screen, const TrainArguments& arguments, int workers) {
  std::vector<const char*> settings{"chaos", "elastic", "max-restarts"};
  if (workers == 1) settings.push_back("stall-timeout");
  sayIdle(screen, arguments, settings, "only cohort train --workers N supervises its workers");
}

GivenSettings asOneEach(int workers) {
  const std::string count = std::to_string(workers);
  return {{"workers", {count}}, {"groups", {count}}};
}

std::string whyInelastic(const RunConfig& config) {
  return groupSize(config) > 1 ? "a group that loses a worker is started again, while the others go on"
                               : "workers of a center come and go by themselves";
}

double patienceOf(const RunConfig& config) {
  return std::max(Communicator::kDefaultPatience, 2 * config.stallTimeout);
}

Supervision supervisionOf(const TrainArguments& arguments, Request& request, Screen& screen) {
  Supervision supervision{.command = {ownProgram().string()},
                          .workers = static_cast<int>(request.config.workers),
                          .maxRestarts = static_cast<int>(request.config.maxRestarts),
                          .stallSeconds = request.config.stallTimeout};
  std::vector<std::string>& words = supervision.command;
  words.insert(words.end(), arguments.words.begin(), arguments.words.end());
  if (request.directory.empty()) {
    request.directory = newJobDirectory(request.config.network);
    words.insert(words.end(), {"--job-dir", request.directory.string()});
    screen.print(fmt::format("job directory {}", request.directory.string()));
  }
  // As many images in a step, however many workers there will be.
  if (isGiven(arguments, "batch-per-worker")) {
    words.insert(words.end(),
                 {"-o", "batch-per-worker=0", "-o", fmt::format("batch-size={}", request.config.batchSize)});
  }
  if (!request.config.chaos.empty()) supervision.chaos = std::stoull(request.config.chaos);
  return supervision;
}

}  // namespace cohort
