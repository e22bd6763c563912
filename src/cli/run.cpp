#include "cli/run.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/setting_options.h"
#include "cli/version.h"
#include "engine/instruction_set.h"
#include "train/config_file.h"

namespace cohort {
namespace {

std::string nearestFlag(const CLI::App& command, const std::string& wrong) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (findOlderName(name) == nullptr) flags.push_back("--" + name);
    }
  }
  return nearestWord(wrong, flags);
}

// CLI11's message, with the nearest flag where one is unknown.
std::string parseMessage(const CLI::App& app, const CLI::ParseError& error) {
  for (const CLI::App* command : app.get_subcommands()) {
    std::string name = command->get_name();
    for (; !command->get_subcommands().empty(); name += " " + command->get_name()) {
      command = command->get_subcommands().front();
    }
    const std::vector<std::string> rest = command->remaining();
    if (rest.empty()) continue;
    const std::string wrong = rest.front().substr(0, rest.front().find('='));
    const std::string nearest = nearestFlag(*command, wrong);
    return fmt::format("cohort {} does not know {}{}", name, wrong,
                       nearest.empty() ? fmt::format("; see cohort {} --help", name)
                                       : fmt::format("; did you mean {}?", nearest));
  }
  if (app.get_subcommands().empty()) {
    const std::vector<std::string> rest = app.remaining();
    return fmt::format(
        "{} is train, serve, credentials, status, cluster, eval, describe, data, report, study, verify or "
        "bench (see cohort --help)",
        rest.empty() ? "the first word after cohort" : fmt::format("'{}' is no command: it", rest[0]));
  }
  return error.what();
}

// Where programs keep what they can compute again; empty where nobody says.
std::filesystem::path cacheDirectory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::filesystem::path(cache) / "cohort";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::filesystem::path(home) / ".cache" / "cohort";
  }
  return {};
}

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

int fail(int code, const std::string& message) {
  endLiveLine();
  std::fprintf(stderr, "cohort: %s\n", message.c_str());
  return code;
}

// The parser with its subcommands; `command` becomes the one to run.
struct Parser {
  explicit Parser(const RunContext& context);

  CLI::App app{"Trains neural networks on CPU workers, with the same bits for any number of cores."};
  SettingOptions trainOptions;
  TrainArguments train;
  ServeArguments serve;
  StatusArguments status;
  std::string credentialsFile;
  EvaluateArguments evaluate;
  SettingOptions describeOptions;
  DescribeArguments describe;
  ReportArguments report;
  StudyArguments study;
  VerifyArguments verify;
  int exitCode = kSuccess;
};

Parser::Parser(const RunContext& context) {
  app.name("cohort");
  app.set_version_flag("--version", std::string("cohort ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(31);
  app.footer(
      "Exit codes: 0 done, 2 wrong usage, 3 a file or the system failed, 4 a worker failed, 5 runs differ,\n"
      "75 stopped by a signal after a checkpoint (the same command goes on).");

  CLI::App* command = app.add_subcommand("train", "Train a network; resumes where its job directory stopped");
  command
      ->add_option_function<std::string>(
          "--job-dir",
          [this](const std::string& value) { trainOptions.flags()[std::string(kJobDirectory)] = {value}; },
          "the run's folder (default: a new runs/NETWORK-DATE-N)")
      ->type_name("DIR");
  command->add_option("--join", train.join, "train as a worker of a center: its servers, in their order")
      ->type_name("HOST:PORT,...")
      ->check([](const std::string& addresses) {
        // Not as if it was left out: a script's variable may be empty.
        return addresses.empty() ? std::string("needs the address of a server: HOST:PORT") : std::string();
      });
  command->add_option("--credentials", train.credentials, "the center's file, which lets this worker in")
      ->type_name("FILE");
  command->add_flag("--insecure", train.insecure, "join a center without TLS, where anybody may");
  addVerbosity(*command, train.verbosity);
  trainOptions.addTo(*command, [](const Setting&) { return true; });
  command->footer(
      "Without options: mnist-cnn on Fashion-MNIST, about a minute. Defaults come from the network's\n"
      "recipe.");
  command->callback([this, &context] {
    train.layers = trainOptions.layers(train.notes);
    exitCode = trainCommand(context, train);
  });

  command = app.add_subcommand("serve", "One server of a center, for workers that --join it");
  command->add_option("--listen", serve.listen, "where workers reach it (port 0: any that is free)")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--servers", serve.servers, "servers that share the parameters")
      ->type_name("M")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--server-index", serve.index, "which of them this is, from 0 on")
      ->type_name("K")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  command
      ->add_option("--credentials", serve.credentials, "the run's file (default: the first server makes one)")
      ->type_name("FILE");
  command->add_flag("--insecure", serve.insecure, "no TLS, though others may reach the address");
  command->add_option("--job-dir", serve.jobDirectory, "its folder")->type_name("DIR")->capture_default_str();
  command->add_option("--snapshot-every", serve.snapshotEvery, "how often it keeps what it has; 0: never")
      ->type_name("T")
      ->capture_default_str();
  command->callback([this] { exitCode = serveCommand(serve); });

  command =
      app.add_subcommand("credentials", "Make the file that lets servers and workers into a run's center");
  command->add_option("FILE", credentialsFile, "a new file")->type_name("")->required();
  command->callback([this] { exitCode = credentialsCommand(credentialsFile); });

  command = app.add_subcommand("status", "How a running center is: members, steps, staleness, bytes");
  command->add_option("CENTER", status.center, "the run's folder, or HOST:PORT,... of its servers")
      ->type_name("")
      ->required();
  command->add_option("--credentials", status.credentials, "the center's file (default: as its folder says)")
      ->type_name("FILE");
  command->add_flag("--insecure", status.insecure, "look at a center without TLS");
  command->callback([this] { exitCode = statusCommand(status); });

  addClusterCommands(app, exitCode);

  command = app.add_subcommand("eval", "Loss, top-1 and top-5 of a run's checkpoint");
  command->add_option("--job-dir", evaluate.jobDirectory, "the run's folder")->type_name("DIR")->required();
  command->add_option("--checkpoint", evaluate.checkpoint, "a certain checkpoint (default: the newest)")
      ->type_name("FILE");
  command->add_option("--split", evaluate.split, "test or train")->type_name("NAME")->capture_default_str();
  command->add_option("--threads", evaluate.threads, "lanes (default: every core)")->type_name("T");
  command->callback([this, &context] { exitCode = evaluateCommand(context, evaluate); });

  command = app.add_subcommand("describe", "A network's layers: shapes, parameters, work, kernels, memory");
  command->add_flag("--list", describe.list, "name the networks");
  describeOptions.addTo(*command, [](const Setting& setting) {
    const std::string_view name = setting.name;
    return name == "network" || name == "image-size" || name == "channels" || name == "classes" ||
           name == "batch-size" || name == "grains" || name == "isa" || name == "workers" ||
           name == "parallel" || name == "split" || name == "mesh";
  });
  command->callback([this, &context] {
    describe.layers = describeOptions.layers(describe.notes);
    exitCode = describeCommand(context, describe);
  });

  addDataCommands(app, exitCode);
  addBenchCommands(app, context.networks, exitCode);

  command = app.add_subcommand("report", "Curves, speed and settings of runs as one HTML page");
  command->add_option("RUN", report.runs, "the runs' folders")->type_name("")->required();
  command->add_option("-o,--output", report.output, "the page")->type_name("FILE")->capture_default_str();
  command->add_option("--svg", report.svgDirectory, "write the charts here too, one file each")
      ->type_name("DIR");
  command->callback([this] { exitCode = reportCommand(report); });
  command = app.add_subcommand("verify", "Whether two runs, or a run and its replay, had the same bits");
  command->add_option("RUN", verify.runs, "the runs' folders")->type_name("")->required();
  command->add_option("--replay", verify.replay, "compute these steps again from the checkpoint of FROM")
      ->type_name("FROM:TO");
  command
      ->add_option("--workers", verify.workers,
                   "of the replay (default: 1; the run's own where its bits depend on them)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command->callback([this] { exitCode = verifyCommand(verify); });
  command = app.add_subcommand("study", "Train over lists of values; tables and charts of the results");
  command->add_option("file", study.file, "the study's YAML file")->type_name("FILE")->required();
  command->add_option("--study-dir", study.directory, "its folder (default: studies-out/NAME)")
      ->type_name("DIR");
  command->add_flag("--dry-run", study.dryRun, "only list the runs");
  command->callback([this, &context] { exitCode = studyCommand(context.networks, study); });
}

}  // namespace

int run(int argc, const char* const* argv, const NetworkRegistry& networks, const DatasetRegistry& datasets) {
  const auto processStart = std::chrono::steady_clock::now();
  try {
    checkProcessor();
    const RunContext context{.networks = networks, .datasets = datasets, .cacheDirectory = cacheDirectory()};
    // A file that outgrows the shell's limit is then an error of that write, like a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    Parser parser(context);
    parser.train.processStart = processStart;
    try {
      std::vector<std::string> arguments = normalizedArguments(argc, argv);
      parser.train.words = arguments;
      std::ranges::reverse(arguments);  // as CLI11 wants them
      parser.app.parse(arguments);
    } catch (const CLI::Success& help) {
      return parser.app.exit(help);
    } catch (const CLI::ParseError& error) {
      return fail(kUsageError, parseMessage(parser.app, error));
    }
    return parser.exitCode;
  } catch (const std::exception& error) {
    const int code = exitCodeOf(error);
    return fail(code, fmt::format("{}{}", code == kInternalError ? "internal error: " : "", error.what()));
  }
}

}  // namespace cohort
