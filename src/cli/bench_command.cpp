#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/scratch_folder.h"
#include "cli/signals.h"
#include "launch/run_program.h"
#include "models/network.h"
#include "train/statistics.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr double kImages = 5120;  // that times are told for, as the older programs did

// Of one number of workers, per kImages images.
struct Timing {
  int workers = 0;
  double seconds = 0;
  double train = 0;  // data, forward, backward, update
  double communication = 0;
  double wait = 0;
};

Timing timingOf(const fs::path& job, int workers) {
  const auto summary = nlohmann::json::parse(readWholeFile(job / "summary.json"));
  Timing timing{.workers = workers, .seconds = kImages / summary.at("images_per_s").get<double>()};
  double train = 0;
  for (const char* key : {"data_s", "forward_s", "backward_s", "update_s"}) {
    train += summary.at(key).get<double>();
  }
  const double wait = summary.at("wait_s").get<double>();
  const double share = timing.seconds / (train + wait);
  timing.train = share * train;
  timing.wait = share * wait;
  const auto& each = summary.at("workers");
  for (const auto& worker : each) {
    timing.communication +=
        share * worker.at("communication_s").get<double>() / static_cast<double>(each.size());
  }
  return timing;
}

Timing medianOf(const std::vector<Timing>& timings) {
  const auto middle = [&](double Timing::*field) {
    std::vector<double> values;
    for (const Timing& timing : timings) values.push_back(timing.*field);
    return median(values);
  };
  return {.workers = timings.front().workers,
          .seconds = middle(&Timing::seconds),
          .train = middle(&Timing::train),
          .communication = middle(&Timing::communication),
          .wait = middle(&Timing::wait)};
}

void printTable(const std::vector<Timing>& timings) {
  fmt::print("{:>7}  {:>16}  {:>8}  {:>8}  {:>8}  {:>8}  {:>10}\n", "workers", "s per 5120 images", "train",
             "comm", "wait", "speed-up", "efficiency");
  for (const Timing& t : timings) {
    const double speedUp = timings.front().seconds * timings.front().workers / t.seconds;
    fmt::print("{:>7}  {:>17.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  {:>9.1f}%\n", t.workers, t.seconds,
               t.train, t.communication, t.wait, speedUp, 100 * speedUp / t.workers);
  }
}

std::string csvOf(const std::vector<Timing>& timings) {
  std::string text = "workers,seconds_per_5120_images,train_s,communication_s,wait_s,speed_up,efficiency\n";
  for (const Timing& t : timings) {
    const double speedUp = timings.front().seconds * timings.front().workers / t.seconds;
    text += fmt::format("{},{},{},{},{},{},{}\n", t.workers, t.seconds, t.train, t.communication, t.wait,
                        speedUp, speedUp / t.workers);
  }
  return text;
}

}  // namespace

int benchScalingCommand(const NetworkRegistry& networks, const BenchScalingArguments& arguments) {
  const Network network = networks.find(arguments.network);
  const std::int64_t batch = arguments.batchSize > 0 ? arguments.batchSize : network.recipe.batchSize;
  const ScratchFolder scratch(fs::temp_directory_path() / "cohort-bench");
  // The first step touches all memory for the first time, and is not told.
  const std::int64_t steps =
      1 + std::max<std::int64_t>(
              3, static_cast<std::int64_t>(std::ceil(arguments.images / static_cast<double>(batch))));
  std::map<int, std::vector<Timing>> timings;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const int workers : arguments.workers) {
      const fs::path job = scratch.path() / fmt::format("{}-{}", workers, round);
      std::vector<std::string> words = {"cohort",
                                        "train",
                                        "--network",
                                        arguments.network,
                                        "--dataset",
                                        "synthetic",
                                        "--samples",
                                        std::to_string(2 * batch),
                                        "--test-samples",
                                        "1",
                                        "--batch-size",
                                        std::to_string(batch),
                                        "--workers",
                                        std::to_string(workers),
                                        "--threads",
                                        std::to_string(arguments.threads),
                                        "--train-steps",
                                        std::to_string(steps),
                                        "--checkpoint-every",
                                        "0",
                                        "--receipt-every",
                                        "0",
                                        "--sync",
                                        arguments.sync,
                                        "--job-dir",
                                        job.string(),
                                        "--quiet"};
      for (const std::string& option : arguments.settings) words.insert(words.end(), {"-o", option});
      fmt::print(stderr, "round {} of {}: {} worker{}\n", round + 1, arguments.rounds, workers,
                 workers == 1 ? "" : "s");
      runProgram(words, scratch.path() / "log.txt", stopOnSignals());
      timings[workers].push_back(timingOf(job, workers));
      fs::remove_all(job);
    }
  }
  std::vector<Timing> table;
  for (const int workers : arguments.workers) table.push_back(medianOf(timings[workers]));
  fmt::print("{}, batch {}, --sync {}, {} lane{} a worker, {} steps, {} round{}\n", arguments.network, batch,
             arguments.sync, arguments.threads, arguments.threads == 1 ? "" : "s", steps, arguments.rounds,
             arguments.rounds == 1 ? "" : "s");
  printTable(table);
  if (!arguments.csv.empty()) writeWholeFile(arguments.csv, csvOf(table));
  return kSuccess;
}

}  // namespace cohort
