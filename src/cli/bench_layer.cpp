#include "cli/bench_layer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/scratch_folder.h"
#include "cli/exit_code.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "engine/instruction_set.h"
#include "launch/folders.h"
#include "launch/run_program.h"
#include "launch/worker_cores.h"
#include "train/layer_bench.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Layer = LayerBench::Layer;
using Mode = LayerBench::Mode;

constexpr int kChannel = 0;
constexpr int kMostPixels = 1 << 16;  // on a side, or channels
constexpr const char* kAll = "all";

struct Case {
  const char* name;
  Layer layer;
  Mode mode;
};
constexpr Case kCases[] = {{"fc_none", Layer::Dense, Mode::None},   {"fc_data", Layer::Dense, Mode::Data},
                           {"fc_model", Layer::Dense, Mode::Model}, {"conv_none", Layer::Conv, Mode::None},
                           {"conv_data", Layer::Conv, Mode::Data},  {"conv_model", Layer::Conv, Mode::Model}};

struct LayerArguments {
  std::string name;
  std::optional<int> workers;
  int threads = 1;
  std::int64_t batch = 10;
  std::string shape = "3x256x256";
  std::optional<int> outputs;
  std::optional<int> kernel;
  std::optional<int> stride;
  int steps = 50;
  std::string json;
};

struct NamedBench {
  std::string name;
  LayerBench bench;
};

struct Result {
  NamedBench of;
  LayerTimes times;
};

std::vector<Case> casesOf(const std::string& name) {
  if (name == kAll) return {std::begin(kCases), std::end(kCases)};
  const auto* const found = std::ranges::find(kCases, name, &Case::name);
  if (found != std::end(kCases)) return {*found};
  std::vector<std::string> known;
  for (const Case& each : kCases) known.emplace_back(each.name);
  known.emplace_back(kAll);
  const std::string nearest = nearestWord(name, known);
  throw UsageError(fmt::format("there is no layer '{}' to measure{}; there are {}", name,
                               nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                               fmt::join(known, ", ")));
}

// "3x256x256"
Shape parseShape(const std::string& text) {
  std::int64_t sides[3] = {};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  bool isGood = true;
  for (int i = 0; i < 3 && isGood; ++i) {
    const auto [next, error] = std::from_chars(at, end, sides[i]);
    const bool isLast = i == 2;
    isGood = error == std::errc() && sides[i] >= 1 && sides[i] <= kMostPixels &&
             (isLast ? next == end : next != end && *next == 'x');
    at = isLast ? next : next + 1;
  }
  if (!isGood) {
    throw UsageError(fmt::format(
        "--shape takes channels, height and width, each from 1 to {}, such as 3x256x256; not '{}'",
        kMostPixels, text));
  }
  return {.channels = sides[0], .height = sides[1], .width = sides[2]};
}

void refuseIdle(const LayerArguments& arguments) {
  const bool hasConv = arguments.name.starts_with("conv") || arguments.name == kAll;
  if (!hasConv && (arguments.kernel || arguments.stride)) {
    throw UsageError(fmt::format("--{} is for convolutions, and {} is none; leave it out",
                                 arguments.kernel ? "kernel" : "stride", arguments.name));
  }
  if (arguments.name.ends_with("_none") && arguments.workers.value_or(1) != 1) {
    throw UsageError(fmt::format("{} has one worker; leave --workers out", arguments.name));
  }
}

// What is to be measured, by so many workers where a case has several. UsageError before anything is started.
std::vector<NamedBench> benchesOf(const LayerArguments& arguments, int workers) {
  std::vector<NamedBench> benches;
  const std::vector<Case> cases = casesOf(arguments.name);
  refuseIdle(arguments);
  for (const Case& each : cases) {
    const bool isDense = each.layer == Layer::Dense;
    LayerBench bench{.layer = each.layer,
                     .mode = each.mode,
                     .input = parseShape(arguments.shape),
                     .outputs = arguments.outputs.value_or(isDense ? 1024 : 96)};
    bench.kernel = arguments.kernel.value_or(bench.kernel);
    bench.stride = arguments.stride.value_or(bench.stride);
    bench.workers = each.mode == Mode::None ? 1 : workers;
    bench.lanes = arguments.threads;
    bench.batch = arguments.batch;
    bench.steps = arguments.steps;
    requireLayer(bench);
    benches.push_back({each.name, bench});
  }
  return benches;
}

// ---- what is told

std::string jsonOf(const std::vector<Result>& results) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Result& result : results) {
    const LayerBench& bench = result.of.bench;
    nlohmann::ordered_json row{
        {"case", result.of.name}, {"workers", bench.workers},
        {"lanes", bench.lanes},   {"batch", bench.batch},
        {"steps", bench.steps},   {"images_per_s", static_cast<double>(bench.batch) / result.times.step}};
    row.update(nlohmann::ordered_json::parse(toJson(result.times)));
    json.push_back(row);
  }
  return json.dump(2) + "\n";
}

void printHeader(const std::vector<Result>& results) {
  const LayerBench& any = results.front().of.bench;
  fmt::print("images of {}x{}x{} in batches of {}, {} lane{} a worker, medians of {} step{}\n",
             any.input.channels, any.input.height, any.input.width, any.batch, any.lanes,
             any.lanes == 1 ? "" : "s", any.steps, any.steps == 1 ? "" : "s");
  const auto first = [&](Layer layer) {
    return std::ranges::find_if(results, [&](const Result& r) { return r.of.bench.layer == layer; });
  };
  if (const auto fc = first(Layer::Dense); fc != results.end()) {
    fmt::print("fc: a dense layer of {} outputs, softmax loss\n", fc->of.bench.outputs);
  }
  if (const auto conv = first(Layer::Conv); conv != results.end()) {
    const LayerBench& bench = conv->of.bench;
    fmt::print("conv: {}x{}/{} with {} outputs, global average pool, softmax loss\n", bench.kernel,
               bench.kernel, bench.stride, bench.outputs);
  }
}

// What "comm" is, where it is of something.
void printCommunication(const std::vector<Result>& results) {
  const auto has = [&](Mode mode) {
    return std::ranges::any_of(results, [&](const Result& r) { return r.of.bench.mode == mode; });
  };
  if (!has(Mode::Data) && !has(Mode::Model)) return;
  fmt::print("\ncomm: lanes' time for packing, waiting, unpacking and adding what workers exchange\n");
  if (has(Mode::Model)) {
    fmt::print(
        "_model: outputs and their gradients are exchanged. The layer's inputs are images, which every\n"
        "worker reads by itself: to gather them, and to sum their gradient, is in none of these times\n");
  }
}

void printTable(const std::vector<Result>& results) {
  printHeader(results);
  fmt::print("\n{:10}  {:>7}  {:>10}  {:>11}  {:>9}  {:>7}  {:>7}  {:>8}  {:>7}\n", "", "workers",
             "forward ms", "backward ms", "update ms", "comm ms", "step ms", "images/s", "sent MB");
  for (const Result& result : results) {
    const LayerTimes& t = result.times;
    fmt::print("{:10}  {:>7}  {:>10.2f}  {:>11.2f}  {:>9.2f}  {:>7.2f}  {:>7.2f}  {:>8.2f}  {:>7.2f}\n",
               result.of.name, result.of.bench.workers, 1e3 * t.forward, 1e3 * t.backward, 1e3 * t.update,
               1e3 * t.communication, 1e3 * t.step, static_cast<double>(result.of.bench.batch) / t.step,
               t.sentBytes / 1e6);
  }
  printCommunication(results);
}

void tell(const LayerArguments& arguments, const std::vector<Result>& results) {
  printTable(results);
  if (!arguments.json.empty()) writeWholeFile(arguments.json, jsonOf(results));
}

// ---- as one of the workers that mpirun has started

LayerTimes runAsWorker(const LayerBench& bench, const MpiSession& session) {
  // While one computes alone, the others wait as long as that takes.
  const bool isAlone = bench.workers == 1;
  Communicator all(mpiTransport(session), isAlone ? Communicator::kForEver : Communicator::kDefaultPatience);
  const Channel channel(all, kChannel);
  const std::vector<WorkerCores> cores = gatherCores(channel);
  const OwnedCores owned = coresOfWorker(cores, session.rank());
  // Where it has more, the system places the lanes.
  const std::vector<int> own = owned.cores == bench.lanes ? owned.threads : std::vector<int>();
  LayerTimes times;
  if (!isAlone) {
    times = runLayer(bench, all, own);
  } else if (session.rank() == 0) {
    Communicator alone;
    times = runLayer(bench, alone, own);
  }
  channel.barrier("the end of a layer's steps");
  return times;
}

int benchUnderMpi(const LayerArguments& arguments) {
  const MpiSession session;
  try {
    if (arguments.workers.value_or(session.size()) != session.size()) {
      throw UsageError(
          fmt::format("mpirun has started {} worker{}, and --workers says {}; leave --workers out",
                      session.size(), session.size() == 1 ? "" : "s", *arguments.workers));
    }
    useInstructionSet(bestInstructionSet());
    std::vector<Result> results;
    for (const NamedBench& each : benchesOf(arguments, session.size())) {
      results.push_back({each, runAsWorker(each.bench, session)});
    }
    if (session.rank() == 0) tell(arguments, results);
    return kSuccess;
  } catch (const std::exception& error) {
    const int code = exitCodeOf(error);
    letFirstSpeak(session.rank(), code);
    std::fprintf(stderr, "cohort: worker %d: %s\n", session.rank(), error.what());
    MpiSession::abort(code);
  }
}

// ---- as the one who starts them

std::vector<std::string> workerWords(const NamedBench& each, const LayerArguments& arguments,
                                     const fs::path& json) {
  const LayerBench& bench = each.bench;
  std::vector<std::string> words = {"cohort", "bench", "layer", each.name};
  const auto set = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {fmt::format("--{}", name), value});
  };
  set("batch", std::to_string(bench.batch));
  set("shape", arguments.shape);
  set("outputs", std::to_string(bench.outputs));
  if (bench.layer == Layer::Conv) {
    set("kernel", std::to_string(bench.kernel));
    set("stride", std::to_string(bench.stride));
  }
  set("steps", std::to_string(bench.steps));
  set("threads", std::to_string(bench.lanes));
  set("json", json.string());
  return words;
}

int benchLayer(const LayerArguments& arguments) {
  if (startedByMpi()) return benchUnderMpi(arguments);
  const std::vector<NamedBench> benches = benchesOf(arguments, arguments.workers.value_or(2));
  const ScratchFolder scratch(temporaryFolder() / "cohort-bench");
  std::vector<Result> results;
  for (const NamedBench& each : benches) {
    if (benches.size() > 1) {
      fmt::print(stderr, "{} of {}: {}\n", results.size() + 1, benches.size(), each.name);
    }
    const fs::path json = scratch.path() / (each.name + ".json");
    runWorkers(each.bench.workers, workerWords(each, arguments, json), scratch.path() / (each.name + ".txt"),
               stopOnSignals());
    const auto told = nlohmann::json::parse(readWholeFile(json));
    results.push_back({each, layerTimes(told.at(0).dump(), json.string())});
  }
  tell(arguments, results);
  return kSuccess;
}

}  // namespace

void addLayerBench(CLI::App& bench, int& exitCode) {
  CLI::App* command =
      bench.add_subcommand("layer", "One layer alone: undivided, divided by data, and by model");
  auto arguments = std::make_shared<LayerArguments>();
  const auto add = [&](const char* name, auto& value, const char* text) -> CLI::Option* {
    return command->add_option(name, value, text);
  };
  const auto addCount = [&](const char* name, auto& value, const char* text, int most) {
    return add(name, value, text)->type_name("N")->check(CLI::Range(1, most));
  };
  constexpr int kMost = 1'000'000;
  add("CASE", arguments->name, "fc_none, fc_data, fc_model, conv_none, conv_data, conv_model or all")
      ->type_name("")
      ->required();
  addCount("--workers", arguments->workers, "of a divided layer, on this machine (default: 2)", 4096);
  addCount("--threads", arguments->threads, "lanes of each worker", 256)->capture_default_str();
  addCount("--batch", arguments->batch, "images in a step, of all workers together", kMost)
      ->capture_default_str();
  add("--shape", arguments->shape, "channels, height and width of the images")
      ->type_name("CxHxW")
      ->capture_default_str();
  addCount("--outputs", arguments->outputs, "of the layer (default: 1024, of a convolution 96)", kMost);
  addCount("--kernel", arguments->kernel, "of a convolution (default: 11)", kMostPixels);
  addCount("--stride", arguments->stride, "of a convolution (default: 2)", kMostPixels);
  addCount("--steps", arguments->steps, "that count; one more goes before them", kMost)
      ->capture_default_str();
  add("--json", arguments->json, "write the numbers here too")->type_name("FILE");
  command->footer(
      "_none: one worker computes all. _data: each worker has all weights and a part of the batch.\n"
      "_model: each worker has a part of the outputs and the whole batch. Forward, backward (the\n"
      "gradient of the weights) and update are without communication, which is the time that lanes\n"
      "take to pack, wait for, unpack and add what workers exchange: with _data gradients and weights\n"
      "(most of the update happens meanwhile), with _model outputs and their gradients. The inputs\n"
      "are images, which every worker reads by itself: inside a network, a layer that is divided by\n"
      "model also gathers its inputs and sums their gradient, and that is not measured here.\n"
      "Starts its workers itself; under mpirun those that are there compute.");
  command->callback([arguments, &exitCode] { exitCode = benchLayer(*arguments); });
}

}  // namespace cohort
