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

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/parse_message.h"
#include "cli/setting_options.h"
#include "cli/train_options.h"
#include "cli/version.h"
#include "cli/visible_devices.h"
#include "engine/instruction_set.h"

namespace cohort {
namespace {

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

int fail(int code, const std::string& message) {
  endLiveLine();
  std::fprintf(stderr, "cohort: %s\n", message.c_str());
  return code;
}

// The parser with its subcommands; `command` becomes the one to run.
struct Parser {
  explicit Parser(const RunContext& context);

  CLI::App app{"Trains neural networks on CPU workers, with the same bits for any number of cores."};
  TrainOptions trainOptions;
  LaunchArguments launch;
  ServeArguments serve;
  StatusArguments status;
  std::string credentialsFile;
  EvaluateArguments evaluate;
  SettingOptions describeOptions;
  DescribeArguments describe;
  ReportArguments report;
  StudyArguments study;
  ReplayArguments replay;
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
      "6 the doctor found something, 7 a virtual run was stopped by a signal (it can only start anew),\n"
      "75 stopped by a signal after a checkpoint (the same command goes on).");

  CLI::App* command = app.add_subcommand("train", "Train a network; resumes where its job directory stopped");
  trainOptions.addTo(*command);
  command->callback([this, &context] {
    const TrainArguments& arguments = trainOptions.arguments();
    showDevices(arguments.devicesVisible);
    exitCode = trainCommand(context, arguments);
  });

  command = app.add_subcommand("launch", "Train on the hosts of a file, over ssh");
  command->add_option("--hosts", launch.hosts, "who is where; see below")->type_name("FILE")->required();
  command->add_option("--ssh", launch.ssh, "what runs a command on a host (default: ssh)")
      ->type_name("PROGRAM");
  command
      ->add_option("--remote-program", launch.remoteProgram, "cohort on the hosts (default: the same path)")
      ->type_name("PATH");
  command->add_option("--directory", launch.directory, "where it starts there (default: the same as here)")
      ->type_name("DIR");
  command->add_option("--max-restarts", launch.maxRestarts, "of a member, while the run gets nowhere")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--dry-run", launch.dryRun, "only print the commands");
  command->add_option("command", launch.words, "train and its options, after --")->type_name("")->required();
  command->footer(
      "The file has a line for each process, or for several alike; what follows # is a comment:\n"
      "  a:2222       ps                # a server; with none, the first worker serves too\n"
      "  b:2222       worker cores=0-3  # the first worker is the chief\n"
      "  n[1-4]:2222  worker\n"
      "  e            evaluator\n"
      "PROGRAM may have arguments (parted by blanks); HOST and COMMAND follow them.");
  command->callback([this, &context] { exitCode = launchCommand(context, launch); });
  command =
      app.add_subcommand("attend", "Run a command as long as the standard input is open; launch does so");
  command->group("")->prefix_command();
  command->callback([this, command] { exitCode = attendCommand(command->remaining()); });

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
  command
      ->add_option("--journal", serve.journal,
                   "the order of updates goes there (default: journal in its folder)")
      ->type_name("DIR");
  command->add_flag("--no-journal", serve.noJournal, "do not keep it");
  command->callback([this] { exitCode = serveCommand(serve); });

  command =
      app.add_subcommand("credentials", "Make the file that lets servers and workers into a run's center");
  command->add_option("FILE", credentialsFile, "a new file")->type_name("")->required();
  command->callback([this] { exitCode = credentialsCommand(credentialsFile); });

  command = app.add_subcommand("status", "Where a run stands, worker by worker, and how its center is");
  command->add_option("RUN", status.center, "the run's folder, or HOST:PORT,... of a center's servers")
      ->type_name("")
      ->required();
  command->add_option("--credentials", status.credentials, "the center's file (default: as its folder says)")
      ->type_name("FILE");
  command->add_flag("--insecure", status.insecure, "look at a center without TLS");
  command->callback([this] { exitCode = statusCommand(status); });

  addClusterCommands(app, context, exitCode);
  addDoctorCommand(app, context, exitCode);
  addSlurmCommands(app, context, exitCode);

  command = app.add_subcommand("eval", "Loss, top-1 and top-5 of a run's checkpoint");
  command->add_option("--job-dir", evaluate.jobDirectory, "the run's folder")->type_name("DIR")->required();
  command->add_option("--checkpoint", evaluate.checkpoint, "a certain checkpoint (default: the newest)")
      ->type_name("FILE");
  command->add_option("--split", evaluate.split, "test or train")->type_name("NAME")->capture_default_str();
  command->add_option("--threads", evaluate.threads, "lanes (default: every core)")->type_name("T");
  addDevicesVisible(*command, evaluate.devicesVisible);
  command->callback([this, &context] {
    showDevices(evaluate.devicesVisible);
    exitCode = evaluateCommand(context, evaluate);
  });

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
  command = app.add_subcommand("replay", "Compute a run with a center again from its journals, bit by bit");
  command->add_option("RUN", replay.run, "the run's folder")->type_name("")->required();
  command->add_option("FOLDER", replay.folders, "folders of servers that had their own")->type_name("");
  command->add_option("--threads", replay.threads, "works that are computed at once (default: every core)")
      ->type_name("T")
      ->check(CLI::Range(1, 256));
  addDevicesVisible(*command, replay.devicesVisible);
  command->callback([this, &context] {
    showDevices(replay.devicesVisible);
    exitCode = replayCommand(context, replay);
  });
  command = app.add_subcommand("study", "Train over lists of values; tables and charts of the results");
  command->add_option("file", study.file, "the study's YAML file")->type_name("FILE")->required();
  command->add_option("--study-dir", study.directory, "its folder (default: studies-out/NAME)")
      ->type_name("DIR");
  command->add_flag("--dry-run", study.dryRun, "only list the runs");
  command->callback([this, &context] { exitCode = studyCommand(context.networks, study); });
}

}  // namespace

int run(int argc, const char* const* argv, const NetworkRegistry& networks, const DatasetRegistry& datasets,
        const ExchangeRules& rules) {
  const auto processStart = std::chrono::steady_clock::now();
  try {
    checkProcessor();
    const RunContext context{
        .networks = networks, .datasets = datasets, .rules = rules, .cacheDirectory = cacheDirectory()};
    // A file that outgrows the shell's limit is then an error of that write, like a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    Parser parser(context);
    try {
      std::vector<std::string> arguments = normalizedArguments(argc, argv);
      parser.trainOptions.start(arguments, processStart);
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
