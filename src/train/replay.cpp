#include "train/replay.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "center/journal.h"
#include "engine/instruction_set.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/desk.h"
#include "train/replay_engine.h"
#include "train/run_setup.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct KnownCheckpoint {
  CheckpointFile file;
  CheckpointHead head;
};

// The bits are others than the run's.
class Differs : public std::exception {
 public:
  explicit Differs(std::string where) : where_(std::move(where)) {}
  const char* what() const noexcept override { return where_.c_str(); }

 private:
  std::string where_;
};

std::vector<fs::path> journalFiles(const ReplayOptions& options) {
  std::vector<fs::path> folders{options.run};
  folders.insert(folders.end(), options.folders.begin(), options.folders.end());
  std::vector<fs::path> files;
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code unreadable;
    if (!fs::is_directory(folder, unreadable))
      throw UsageError(fmt::format("there is no folder {}", folder.string()));
    for (const fs::path& place : {folder, folder / "journal"}) {
      std::error_code none;
      for (const fs::directory_entry& entry : fs::directory_iterator(place, none)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(kJournalSuffix) && names.insert(name).second) files.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw UsageError(fmt::format(
        "{} has no journal: runs without a center have none (see cohort verify --replay), nor those with "
        "--no-journal; name the folders of servers that were started by hand",
        options.run.string()));
  }
  return files;
}

class Replay {
 public:
  Replay(const RunContext& context, const ReplayOptions& options) : context_(context), options_(options) {}

  ReplayResult run();

 private:
  RunConfig readConfig() const;
  static RunConfig configOf(const CenterSetup& setup);
  void findCheckpoints();
  const KnownCheckpoint* checkpointOf(const CenterSetup& setup) const;
  void fill(const CenterSetup& setup, ReplayEngine::State& state) const;
  void begin(const CenterSetup& setup, const ReplayEngine::State& state) const;
  void compare(const KnownCheckpoint& checkpoint, const ReplayEngine::State& state);
  std::string firstDifference(const KnownCheckpoint& checkpoint, std::size_t arena,
                              const ReplayEngine::State& state) const;
  TrainingState stateOf(const CenterSetup& setup) const;
  void requireNetwork(const CenterSetup& setup) const;
  std::string atText() const;
  int deskCount() const;

  const RunContext& context_;
  const ReplayOptions& options_;
  std::vector<Journal> journals_;
  std::vector<KnownCheckpoint> checkpoints_;
  std::vector<const KnownCheckpoint*> wanted_;
  std::optional<RunConfig> config_;
  RunData data_;
  std::vector<std::unique_ptr<Desk>> desks_;
  ReplayResult result_;
};

// As the folder has it: what decides gradients cannot change within a run.
RunConfig Replay::readConfig() const {
  const std::optional<std::string> stored = storedConfig(options_.run);
  if (!stored) {
    throw UsageError(fmt::format("{} is no job directory: it has no config.yaml", options_.run.string()));
  }
  for (const Journal& journal : journals_) {
    const CenterRule& rule = journal.head().setup.rule;
    if (!rule.hasOwnWeights || context_.rules.has(rule.name)) continue;
    throw UsageError(
        fmt::format("this program does not know the rule '{}' of this run; replay it with the program that "
                    "has trained it",
                    rule.name));
  }
  return resolveConfig(context_.networks, stored, {}, context_.rules);
}

// What workers with weights of their own heed, as they were told in this opening: it may change from one to the next.
RunConfig Replay::configOf(const CenterSetup& setup) {
  constexpr std::array kHeeded{"avg-freq",   "alpha",    "probability",  "optimizer",
                               "lr",         "momentum", "weight-decay", "weight-decay-filter",
                               "param-rule", "schedule", "batch-size",   "grains"};
  const GivenSettings told = settingsFromYaml(setup.config, "the journal");
  GivenSettings heeded;
  for (const char* name : kHeeded) {
    const auto found = told.find(name);
    if (found != told.end()) heeded.insert(*found);
  }
  RunConfig config;
  applySettings(config, heeded);
  config.sync = setup.rule.name;
  config.seed = setup.rule.seed;
  config.workers = setup.rule.members;
  return config;
}

void Replay::findCheckpoints() {
  for (const CheckpointFile& file : listCheckpoints(options_.run / "checkpoints")) {
    try {
      checkpoints_.push_back({file, headOfCheckpoint(file.path)});
    } catch (const IoError& error) {
      options_.note(fmt::format("{}: it is left out", error.what()));
    }
  }
  if (checkpoints_.empty())
    throw UsageError(fmt::format("{} has no checkpoint to compare with", options_.run.string()));
  const KnownCheckpoint& last = checkpoints_.back();
  if (!last.head.moment.isKnown()) {
    throw UsageError(fmt::format(
        "{} does not say which of a center's updates are in it: it is of a run without one, or of an older "
        "version of cohort",
        last.file.path.string()));
  }
  const auto isJournaled = [this](const KnownCheckpoint& checkpoint) {
    return std::ranges::any_of(journals_, [&](const Journal& journal) {
      return journal.head().setup.opening == checkpoint.head.moment.opening;
    });
  };
  for (const KnownCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.head.moment.isKnown() && (&checkpoint == &last || isJournaled(checkpoint)))
      wanted_.push_back(&checkpoint);
  }
}

// ---- what an opening begins with

// The one that it was opened with.
const KnownCheckpoint* Replay::checkpointOf(const CenterSetup& setup) const {
  const auto found = std::ranges::find_if(checkpoints_, [&](const KnownCheckpoint& checkpoint) {
    const auto hash = checkpoint.head.hashes.find("weights");
    return checkpoint.file.step == setup.step && hash != checkpoint.head.hashes.end() &&
           hash->second == setup.weightsHash;
  });
  return found == checkpoints_.end() ? nullptr : &*found;
}

TrainingState Replay::stateOf(const CenterSetup& setup) const {
  ShardOptions options{.optimizer = setup.optimizer,
                       .schedule = parseSchedule(setup.schedule, setup.epoch),
                       .grains = setup.grains};
  return {desks_.front()->layout(), options, config_->seed, static_cast<int>(desks_.size())};
}

void Replay::fill(const CenterSetup& setup, ReplayEngine::State& state) const {
  TrainingState known = stateOf(setup);
  const std::string& initFrom = config_->initFrom;
  if (const KnownCheckpoint* checkpoint = checkpointOf(setup)) {
    restoreCheckpoint(checkpoint->file.path, known);
    if (setup.step > 0) {
      options_.note(fmt::format("the replay begins with {}: what was before it is in no journal",
                                checkpoint->file.path.string()));
    }
  } else if (setup.step > 0) {
    throw UsageError(
        fmt::format("the run went on from a checkpoint of step {} that is no longer there, and no journal "
                    "has what was before it",
                    setup.step));
  } else if (!initFrom.empty()) {
    initializeFrom(initFrom, known);
    if (weightsHash(known.weights.span()) != setup.weightsHash) {
      throw UsageError(
          fmt::format("{} (--init-from) has other weights now than those that the run began with", initFrom));
    }
  }
  std::ranges::copy(known.weights.span(), state.front().data());
  std::size_t next = 1;
  for (const Shard::Slot& slot : known.shards.front().slots())
    std::ranges::copy(slot.values, state[next++].data());
}

std::string Replay::atText() const {
  return result_.same.empty() ? "" : fmt::format("; that of step {} was the same", result_.same.back());
}

void Replay::begin(const CenterSetup& setup, const ReplayEngine::State& state) const {
  if (setup.weightsHash.empty() || weightsHash(state.front().span()) == setup.weightsHash) return;
  throw Differs(
      fmt::format("the weights differ where the run was opened at step {}{}", setup.step, atText()));
}

void Replay::requireNetwork(const CenterSetup& setup) const {
  const auto& here = desks_.front()->layout().parameters();
  if (std::ranges::equal(here, setup.parameters, [](const Parameter& a, const ParameterSpec& b) {
        return a.name == b.name && a.shape == b.shape;
      }))
    return;
  throw UsageError(
      fmt::format("a journal of {} is of another network than its config.yaml says", options_.run.string()));
}

// ---- whether it is the same

std::string Replay::firstDifference(const KnownCheckpoint& checkpoint, std::size_t arena,
                                    const ReplayEngine::State& state) const {
  const auto opening = std::ranges::find_if(journals_, [&](const Journal& journal) {
    return journal.head().setup.opening == checkpoint.head.moment.opening;
  });
  TrainingState stored = stateOf(opening->head().setup);
  restoreCheckpoint(checkpoint.file.path, stored);
  const std::span<const float> here = state[arena].span();
  const std::span<const float> there =
      arena == 0 ? std::span<const float>(stored.weights.span())
                 : std::span<const float>(stored.shards.front().slots()[arena - 1].values);
  const auto isOther = [&](const Parameter& parameter) {
    return !std::ranges::equal(std::as_bytes(here.subspan(parameter.offset, parameter.size)),
                               std::as_bytes(there.subspan(parameter.offset, parameter.size)));
  };
  const auto& parameters = stored.layout.parameters();
  const auto first = std::ranges::find_if(parameters, isOther);
  return first == parameters.end() ? "" : fmt::format(", first in {}", first->name);
}

void Replay::compare(const KnownCheckpoint& checkpoint, const ReplayEngine::State& state) {
  const bool isLast = &checkpoint == &checkpoints_.back();
  if (isLast) result_.weightsHash = weightsHash(state.front().span());
  std::vector<std::string> names{"weights"};
  const auto opening = std::ranges::find_if(journals_, [&](const Journal& journal) {
    return journal.head().setup.opening == checkpoint.head.moment.opening;
  });
  for (std::string& slot : slotNames(opening->head().setup.optimizer)) names.push_back(std::move(slot));
  for (std::size_t arena = 0; arena < names.size(); ++arena) {
    const auto hash = checkpoint.head.hashes.find(names[arena]);
    if (hash != checkpoint.head.hashes.end() && hash->second == weightsHash(state[arena].span())) continue;
    throw Differs(fmt::format("the {} of the checkpoint of step {} differ{}{}", names[arena],
                              checkpoint.file.step, firstDifference(checkpoint, arena, state), atText()));
  }
  result_.same.push_back(checkpoint.file.step);
}

int Replay::deskCount() const {
  return options_.threads > 0 ? options_.threads : std::max(1, ownCores().lanes);
}

ReplayResult Replay::run() {
  const Clock::time_point start = Clock::now();
  for (const fs::path& file : journalFiles(options_)) {
    journals_.push_back(readJournal(file));
    if (journals_.back().torn() > 0) {
      options_.note(fmt::format("{} bytes at the end of {} are left out: they are not whole",
                                journals_.back().torn(), file.string()));
    }
  }
  findCheckpoints();
  std::vector<CenterMoment> moments;
  for (const KnownCheckpoint* checkpoint : wanted_) moments.push_back(checkpoint->head.moment);
  const int desks = deskCount();
  const ReplayPlan plan =
      planReplay(journals_, moments,
                 {.hasState = [this](const CenterSetup& setup) { return checkpointOf(setup) != nullptr; },
                  .parts = desks});
  config_ = readConfig();
  useInstructionSet(config_->isa);
  data_ = openData(context_, *config_);
  const BatchSource batches(*data_.train, {.batchSize = config_->batchSize,
                                           .grains = static_cast<int>(config_->grains),
                                           .seed = config_->seed,
                                           .shuffle = config_->shuffle && config_->randomness});
  std::vector<ReplayEngine::Compute> computes;
  for (int i = 0; i < desks; ++i) {
    Desk* desk = desks_.emplace_back(std::make_unique<Desk>(context_, *config_, batches)).get();
    computes.emplace_back(
        [desk](const Work& work, std::span<const float> weights, const ReplayEngine::TakeSums& take) {
          const Desk::Result& result = desk->compute(work, weights);
          for (const Desk::NodeSums& node : result.gradients) take(node.node, node.sums);
          return result.losses;
        });
  }
  for (const Journal& journal : journals_) requireNetwork(journal.head().setup);
  const auto setupOf = [&](int opening) -> const CenterSetup& {
    return *plan.openings[static_cast<std::size_t>(opening)].setup;
  };
  result_.updates = plan.updates;
  result_.computed = plan.gradients;
  result_.lost = plan.lost;
  result_.last = checkpoints_.back().file.step;
  result_.first = result_.last;
  for (const ReplayOpening& opening : plan.openings) {
    if (!opening.isNeeded) continue;
    ++result_.openings;
    result_.first = std::min(result_.first, opening.setup->step);
  }
  result_.lives = static_cast<int>(std::ranges::count_if(plan.timelines, &ReplayTimeline::isNeeded));
  ReplayEngine engine(
      plan, desks_.front()->layout(), std::move(computes),
      {.fill = [&](int opening, ReplayEngine::State& state) { fill(setupOf(opening), state); },
       .opened = [&](int opening, const ReplayEngine::State& state) { begin(setupOf(opening), state); },
       .makeOwn =
           [&](int opening) {
             return makeOwnState(context_, configOf(setupOf(opening)), desks_.front()->layout(),
                                 data_.train->size());
           },
       .reached =
           [&](int moment, const ReplayEngine::State& state) {
             compare(*wanted_[static_cast<std::size_t>(moment)], state);
           },
       .progressed = [&](std::int64_t done) { options_.progressed(done, plan.updates); }});
  try {
    engine.run();
  } catch (const Differs& differs) {
    result_.difference = differs.what();
  }
  std::ranges::sort(result_.same);
  result_.seconds = secondsSince(start);
  return result_;
}

}  // namespace

ReplayResult replayRun(const RunContext& context, const ReplayOptions& options) {
  return Replay(context, options).run();
}

}  // namespace cohort
