#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "cli/bench_layer.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "launch/folders.h"
#include "launch/run_program.h"
#include "models/network.h"
#include "train/statistics.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr double kImages = 5120;  // that times are told for, as the older programs did

struct ScalingArguments {
  std::string network = "alexnet";
  std::vector<int> workers = {1, 2};
  std::vector<int> threads = {1};  // of each worker
  std::int64_t batchSize = 0;      // 0: the recipe's
  double images = kImages;
  int rounds = 1;
  std::string sync = "bsp";
  std::vector<std::string> settings;  // KEY=VALUE
  std::string csv;
};

// Of so many workers with so many lanes each, per kImages images.
struct Timing {
  int workers = 0;
  int lanes = 0;
  double seconds = 0;
  double train = 0;  // data, forward, backward, update
  double communication = 0;
  double wait = 0;
};

Timing timingOf(const fs::path& job) {
  const auto summary = nlohmann::json::parse(readWholeFile(job / "summary.json"));
  const auto& each = summary.at("workers");
  Timing timing{.workers = static_cast<int>(each.size()),
                .lanes = each.at(0).at("lanes").get<int>(),
                .seconds = kImages / summary.at("images_per_s").get<double>()};
  double train = 0;
  for (const char* key : {"data_s", "forward_s", "backward_s", "update_s"}) {
    train += summary.at(key).get<double>();
  }
  const double wait = summary.at("wait_s").get<double>();
  const double share = timing.seconds / (train + wait);
  timing.train = share * train;
  timing.wait = share * wait;
  for (const auto& worker : each) {
    timing.communication +=
        share * worker.at("communication_s").get<double>() / static_cast<double>(each.size());
  }
  return timing;
}

Timing medianOf(const std::vector<Timing>& timings) {
  const auto middle = [&](double Timing::*field) {
    std::vector<double> values(timings.size());
    std::ranges::transform(timings, values.begin(), [&](const Timing& timing) { return timing.*field; });
    return median(values);
  };
  return {.workers = timings.front().workers,
          .lanes = timings.front().lanes,
          .seconds = middle(&Timing::seconds),
          .train = middle(&Timing::train),
          .communication = middle(&Timing::communication),
          .wait = middle(&Timing::wait)};
}

// Against the first of all.
struct Scaling {
  double speedUp = 0;
  double efficiency = 0;
};

Scaling scalingOf(const Timing& timing, const Timing& first) {
  const double speedUp = first.seconds / timing.seconds;
  const double cores = static_cast<double>(timing.workers * timing.lanes) / (first.workers * first.lanes);
  return {speedUp, speedUp / cores};
}

void printTable(const std::vector<Timing>& timings) {
  fmt::print("{:>7}  {:>5}  {:>17}  {:>8}  {:>8}  {:>8}  {:>8}  {:>10}\n", "workers", "lanes",
             "s per 5120 images", "train", "comm", "wait", "speed-up", "efficiency");
  for (const Timing& t : timings) {
    const Scaling scaling = scalingOf(t, timings.front());
    fmt::print("{:>7}  {:>5}  {:>17.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  {:>9.1f}%\n", t.workers,
               t.lanes, t.seconds, t.train, t.communication, t.wait, scaling.speedUp,
               100 * scaling.efficiency);
  }
}

std::string csvOf(const std::vector<Timing>& timings) {
  std::string text =
      "workers,lanes,seconds_per_5120_images,train_s,communication_s,wait_s,speed_up,efficiency\n";
  for (const Timing& t : timings) {
    const Scaling scaling = scalingOf(t, timings.front());
    text += fmt::format("{},{},{},{},{},{},{},{}\n", t.workers, t.lanes, t.seconds, t.train, t.communication,
                        t.wait, scaling.speedUp, scaling.efficiency);
  }
  return text;
}

std::vector<std::string> trainingWords(const ScalingArguments& arguments, std::int64_t batch,
                                       std::int64_t steps, int workers, int threads, const fs::path& job) {
  std::vector<std::string> words = {"cohort", "train", "--quiet", "--job-dir", job.string()};
  const auto set = [&](const std::string& name, const std::string& value) {
    words.insert(words.end(), {"--" + name, value});
  };
  set("network", arguments.network);
  set("dataset", "synthetic");
  set("samples", std::to_string(2 * batch));
  set("test-samples", "1");
  set("batch-size", std::to_string(batch));
  set("workers", std::to_string(workers));
  set("threads", std::to_string(threads));
  set("train-steps", std::to_string(steps));
  set("checkpoint-every", "0");
  set("receipt-every", "0");
  set("sync", arguments.sync);
  for (const std::string& option : arguments.settings) words.insert(words.end(), {"-o", option});
  return words;
}

int benchScaling(const NetworkRegistry& networks, const ScalingArguments& arguments) {
  const Network network = networks.find(arguments.network);
  const std::int64_t batch = arguments.batchSize > 0 ? arguments.batchSize : network.recipe.batchSize;
  const ScratchFolder scratch(temporaryFolder() / "cohort-bench");
  // The first step touches all memory for the first time, and is not told.
  const std::int64_t steps =
      1 + std::max<std::int64_t>(
              3, static_cast<std::int64_t>(std::ceil(arguments.images / static_cast<double>(batch))));
  // Rounds of all cases, so that a machine that changes with time changes for all.
  std::vector<std::pair<int, int>> cases;
  for (const int workers : arguments.workers) {
    for (const int threads : arguments.threads) cases.emplace_back(workers, threads);
  }
  std::vector<std::vector<Timing>> timings(cases.size());
  for (int round = 0; round < arguments.rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto [workers, threads] = cases[i];
      const fs::path job = scratch.path() / fmt::format("{}-{}-{}", workers, threads, round);
      fmt::print(stderr, "round {} of {}: {} worker{}, {} lane{}\n", round + 1, arguments.rounds, workers,
                 workers == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
      runProgram(trainingWords(arguments, batch, steps, workers, threads, job), scratch.path() / "log.txt",
                 stopOnSignals());
      timings[i].push_back(timingOf(job));
      fs::remove_all(job);
    }
  }
  std::vector<Timing> table(timings.size());
  std::ranges::transform(timings, table.begin(), medianOf);
  fmt::print("{}, batch {}, --sync {}, {} steps, {} round{}\n", arguments.network, batch, arguments.sync,
             steps, arguments.rounds, arguments.rounds == 1 ? "" : "s");
  printTable(table);
  if (!arguments.csv.empty()) writeWholeFile(arguments.csv, csvOf(table));
  return kSuccess;
}

}  // namespace

void addBenchCommands(CLI::App& app, const NetworkRegistry& networks, int& exitCode) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine with this program");
  bench->callback([bench] {
    if (bench->get_subcommands().empty()) {
      throw UsageError("the word after cohort bench is scaling or layer (see cohort bench --help)");
    }
  });
  CLI::App* command =
      bench->add_subcommand("scaling", "Seconds per 5,120 images, speed-up and efficiency by workers");
  auto arguments = std::make_shared<ScalingArguments>();
  const auto addCounts = [&](const char* name, std::vector<int>& counts, const char* text) {
    command->add_option(name, counts, text)
        ->type_name("LIST")
        ->delimiter(',')
        ->check(CLI::Range(1, 4096))
        ->default_str(fmt::format("{}", fmt::join(counts, ",")));
  };
  command->add_option("--network", arguments->network, "the network")
      ->type_name("NAME")
      ->capture_default_str();
  addCounts("--workers", arguments->workers, "how many, one after the other: 1,2,4");
  addCounts("--threads", arguments->threads, "lanes of each worker, one after the other");
  command->add_option("--batch-size", arguments->batchSize, "of the whole step (default: the recipe's)")
      ->type_name("N");
  command->add_option("--images", arguments->images, "to train on in each run, at least 3 steps")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "of all runs; medians count")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--sync", arguments->sync, "the rule")->type_name("RULE")->capture_default_str();
  command->add_option("-o", arguments->settings, "any other setting, KEY=VALUE; may be repeated")
      ->type_name("SETTING");
  command->add_option("--csv", arguments->csv, "write the table here too")->type_name("FILE");
  command->callback([arguments, &networks, &exitCode] { exitCode = benchScaling(networks, *arguments); });
  addLayerBench(*bench, exitCode);
}

}  // namespace cohort
