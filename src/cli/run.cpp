#include "cli/run.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/version.h"
#include "engine/instruction_set.h"

namespace cohort {
namespace {

// Every setting of a RunConfig as a flag; what the user gives lands in `given` as text.
void addSettings(CLI::App& command, GivenSettings& given, bool (*wanted)(const Setting&)) {
  RunConfig names;
  visitSettings(names, [&](const Setting& setting, auto& field) {
    if (!wanted(setting)) return;
    const std::string name = setting.name;
    if constexpr (std::is_same_v<decltype(field), bool&>) {
      command
          .add_flag_function(
              fmt::format("--{0},!--no-{0}", name),
              [&given, name](std::int64_t count) { given[name] = {count > 0 ? "true" : "false"}; },
              setting.help)
          ->group(setting.group);
      return;
    }
    command
        .add_option_function<std::vector<std::string>>(
            "--" + name, [&given, name](const std::vector<std::string>& values) { given[name] = values; },
            setting.help)
        ->type_name(setting.value)
        ->group(setting.group)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  });
}

std::string nearestFlag(const CLI::App& command, const std::string& wrong) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return nearestWord(wrong, flags);
}

// CLI11's message, with the nearest flag where one is unknown.
std::string parseMessage(const CLI::App& app, const CLI::ParseError& error) {
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<std::string> rest = command->remaining();
    if (rest.empty()) continue;
    const std::string wrong = rest.front().substr(0, rest.front().find('='));
    const std::string nearest = nearestFlag(*command, wrong);
    return fmt::format("cohort {} does not know {}{}", command->get_name(), wrong,
                       nearest.empty() ? fmt::format("; see cohort {} --help", command->get_name())
                                       : fmt::format("; did you mean {}?", nearest));
  }
  if (app.get_subcommands().empty()) {
    const std::vector<std::string> rest = app.remaining();
    return fmt::format(
        "{} is train, eval, describe or report (see cohort --help)",
        rest.empty() ? "the first word after cohort" : fmt::format("'{}' is no command: it", rest[0]));
  }
  return error.what();
}

int fail(int code, const std::string& message) {
  std::fprintf(stderr, "cohort: %s\n", message.c_str());
  return code;
}

// The parser with its subcommands; `command` becomes the one to run.
struct Parser {
  explicit Parser(const NetworkRegistry& networks);

  CLI::App app{"Trains neural networks on CPU workers, with the same bits for any number of cores."};
  TrainArguments train;
  EvaluateArguments evaluate;
  DescribeArguments describe;
  ReportArguments report;
  int exitCode = kSuccess;
};

Parser::Parser(const NetworkRegistry& networks) {
  app.name("cohort");
  app.set_version_flag("--version", std::string("cohort ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(31);
  app.footer(
      "Exit codes: 0 done, 2 wrong usage, 3 a file or the system failed, 75 stopped by a signal after a\n"
      "checkpoint (the same command goes on).");

  CLI::App* command = app.add_subcommand("train", "Train a network; resumes where its job directory stopped");
  command
      ->add_option("--job-dir", train.jobDirectory, "the run's folder (default: a new runs/NETWORK-DATE-N)")
      ->type_name("DIR");
  addSettings(*command, train.given, [](const Setting&) { return true; });
  command->footer(
      "Without options: mnist-cnn on Fashion-MNIST, about a minute. Defaults come from the network's\n"
      "recipe.");
  command->callback([this, &networks] { exitCode = trainCommand(networks, train); });

  command = app.add_subcommand("eval", "Loss, top-1 and top-5 of a run's checkpoint");
  command->add_option("--job-dir", evaluate.jobDirectory, "the run's folder")->type_name("DIR")->required();
  command->add_option("--checkpoint", evaluate.checkpoint, "a certain checkpoint (default: the newest)")
      ->type_name("FILE");
  command->add_option("--split", evaluate.split, "test or train")->type_name("NAME")->capture_default_str();
  command->add_option("--threads", evaluate.threads, "lanes (default: every core)")->type_name("T");
  command->callback([this, &networks] { exitCode = evaluateCommand(networks, evaluate); });

  command = app.add_subcommand("describe", "A network's layers: shapes, parameters, work, kernels, memory");
  command->add_flag("--list", describe.list, "name the networks");
  addSettings(*command, describe.given, [](const Setting& setting) {
    const std::string_view name = setting.name;
    return name == "network" || name == "image-size" || name == "channels" || name == "classes" ||
           name == "batch-size" || name == "grains" || name == "isa";
  });
  command->callback([this, &networks] { exitCode = describeCommand(networks, describe); });

  command = app.add_subcommand("report", "Curves, speed and settings of runs as one HTML page");
  command->add_option("RUN", report.runs, "the runs' folders")->type_name("")->required();
  command->add_option("-o,--output", report.output, "the page")->type_name("FILE")->capture_default_str();
  command->add_option("--svg", report.svgDirectory, "write the charts here too, one file each")
      ->type_name("DIR");
  command->callback([this] { exitCode = reportCommand(report); });
}

}  // namespace

int run(int argc, const char* const* argv, const NetworkRegistry& networks) {
  const auto processStart = std::chrono::steady_clock::now();
  try {
    checkProcessor();
    Parser parser(networks);
    parser.train.processStart = processStart;
    try {
      parser.app.parse(argc, argv);
    } catch (const CLI::Success& help) {
      return parser.app.exit(help);
    } catch (const CLI::ParseError& error) {
      return fail(kUsageError, parseMessage(parser.app, error));
    }
    return parser.exitCode;
  } catch (const UsageError& error) {
    return fail(kUsageError, error.what());
  } catch (const IoError& error) {
    return fail(kIoError, error.what());
  } catch (const std::exception& error) {
    return fail(kInternalError, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace cohort
