#include "cli/train_options.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/parse_message.h"
#include "cli/visible_devices.h"
#include "train/config_file.h"

namespace cohort {
namespace {

void addVerbosity(CLI::App& command, Verbosity& verbosity) {
  const auto set = [&verbosity](Verbosity wanted) {
    if (verbosity != Verbosity::Normal) throw UsageError("give --quiet or --verbose, not both");
    verbosity = wanted;
  };
  command.add_flag_callback(
      "-q,--quiet", [set] { set(Verbosity::Quiet); }, "only warnings, errors and the result");
  command.add_flag_callback(
      "-v,--verbose", [set] { set(Verbosity::Verbose); }, "also the plan, learning rates and times");
}

}  // namespace

void TrainOptions::addTo(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--job-dir",
          [this](const std::string& value) { settings_.flags()[std::string(kJobDirectory)] = {value}; },
          "the run's folder (default: a new runs/NETWORK-DATE-N)")
      ->type_name("DIR");
  command.add_option("--join", arguments_.join, "train as a worker of a center: its servers, in their order")
      ->type_name("HOST:PORT,...")
      ->check([](const std::string& addresses) {
        // Not as if it was left out: a script's variable may be empty.
        return addresses.empty() ? std::string("needs the address of a server: HOST:PORT") : std::string();
      });
  command.add_option("--credentials", arguments_.credentials, "the center's file, which lets this worker in")
      ->type_name("FILE");
  command.add_flag("--insecure", arguments_.insecure, "a center without TLS, which anybody may join");
  arguments_.place.addTo(command);
  command
      .add_option("--workers-per-task", arguments_.workersPerTask,
                  "under srun or mpirun: workers in each task, as threads of it")
      ->type_name("K")
      ->check(CLI::Range(1, 256));
  addDevicesVisible(command, arguments_.devicesVisible);
  addVerbosity(command, arguments_.verbosity);
  settings_.addTo(command, [](const Setting&) { return true; });
  command.footer(
      "Without options: mnist-cnn on Fashion-MNIST, about a minute. Defaults come from the network's\n"
      "recipe.");
}

void TrainOptions::start(std::vector<std::string> words, std::chrono::steady_clock::time_point processStart) {
  arguments_.words = std::move(words);
  arguments_.processStart = processStart;
}

const TrainArguments& TrainOptions::arguments() {
  arguments_.layers = settings_.layers(arguments_.notes);
  return arguments_;
}

TrainArguments parseTrainWords(const std::vector<std::string>& words) {
  CLI::App app;
  app.require_subcommand(1);
  TrainOptions options;
  options.addTo(*app.add_subcommand("train"));
  options.start(words, std::chrono::steady_clock::now());
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // reversed, as CLI11 wants them
  } catch (const CLI::Success&) {
    throw UsageError("--help is no option of a run; see cohort train --help");
  } catch (const CLI::ParseError& error) {
    throw UsageError(parseMessage(app, error));
  }
  return options.arguments();
}

}  // namespace cohort
