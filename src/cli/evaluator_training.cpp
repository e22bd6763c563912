// cohort train as an evaluator: no part of the training, it evaluates each new checkpoint that the others write in the run's folder.
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/console_observer.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_request.h"
#include "train/checkpoint.h"
#include "train/job_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLook{500};
constexpr double kQuietSeconds = 10;  // without a worker, after which a run that has had some is over

class CheckpointFollower {
 public:
  CheckpointFollower(const RunContext& context, fs::path directory, int threads, Console& console)
      : context_(context),
        directory_(std::move(directory)),
        threads_(threads),
        console_(console),
        observer_(console) {}

  // Returns the exit code: as the run's, or that of one who left it.
  int run(const StopFlag& stop);

 private:
  std::optional<CheckpointFile> newest() const;
  void evaluate(const CheckpointFile& checkpoint);
  bool isFinished() const;

  const RunContext& context_;
  fs::path directory_;
  int threads_;
  Console& console_;
  ConsoleObserver observer_;
  Step evaluated_ = -1;
};

std::optional<CheckpointFile> CheckpointFollower::newest() const {
  const std::vector<CheckpointFile> all = listCheckpoints(directory_ / "checkpoints");
  if (all.empty() || !storedConfig(directory_)) return std::nullopt;
  return all.back();
}

void CheckpointFollower::evaluate(const CheckpointFile& checkpoint) {
  const EvaluationResult result =
      runEvaluation(context_, directory_, checkpoint.path, "test", threads_, observer_);
  console_.print(fmt::format("step {}: test loss {:.4f}, accuracy {:.4f}, top-5 {:.4f}", result.step,
                             result.sums.meanLoss(), result.sums.accuracy(), result.sums.top5Accuracy()));
  const Json line{{"step", result.step},
                  {"samples", result.sums.samples},
                  {"loss", result.sums.meanLoss()},
                  {"accuracy", result.sums.accuracy()},
                  {"top5_accuracy", result.sums.top5Accuracy()},
                  {"weights_hash", result.weightsHash}};
  const fs::path file = directory_ / "evaluator.jsonl";
  std::ofstream lines(file, std::ios::app);
  if (!(lines << line.dump() << '\n').flush()) throw IoError(fmt::format("cannot write {}", file.string()));
}

bool CheckpointFollower::isFinished() const {
  std::error_code unreadable;
  const fs::path file = directory_ / "summary.json";
  if (!fs::exists(file, unreadable)) return false;
  const Json summary = Json::parse(readWholeFile(file), nullptr, false);
  return summary.is_object() && !summary.value("interrupted", true);
}

int CheckpointFollower::run(const StopFlag& stop) {
  bool hasSeenWorkers = false;
  Clock::time_point lastSeen = Clock::now();
  while (!stop) {
    if (hasWorkers(directory_)) {
      hasSeenWorkers = true;
      lastSeen = Clock::now();
    }
    const std::optional<CheckpointFile> checkpoint = newest();
    if (checkpoint && checkpoint->step != evaluated_) {
      try {
        evaluate(*checkpoint);
      } catch (const std::exception&) {
        std::error_code gone;
        if (fs::exists(checkpoint->path, gone)) throw;  // otherwise newer ones have taken its place
      }
      evaluated_ = checkpoint->step;
      continue;
    }
    if (secondsSince(lastSeen) > kQuietSeconds && (hasSeenWorkers || isFinished()))
      return isFinished() ? kSuccess : kResume;
    std::this_thread::sleep_for(kLook);
  }
  return kResume;
}

}  // namespace

int evaluateAsTheyCome(const RunContext& context, const TrainArguments& arguments,
                       const ClusterMap& cluster) {
  const StopFlag& stop = stopOnSignals();
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));
  const Request request =
      requestOf(context, arguments, asOneEach(static_cast<int>(cluster.count(Role::Worker))));
  if (request.directory.empty())
    throw UsageError(
        "give --job-dir, the folder that the run's processes share: its checkpoints are evaluated");
  console.print(fmt::format("evaluates the checkpoints of {} as they come", request.directory.string()));
  return CheckpointFollower(context, request.directory, static_cast<int>(request.config.threads), console)
      .run(stop);
}

}  // namespace cohort
