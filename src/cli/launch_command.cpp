// cohort launch: a run on the hosts of a file, over ssh. And cohort attend, which it starts on each of them.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/process_environment.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "cli/train_options.h"
#include "cli/train_request.h"
#include "launch/attend.h"
#include "launch/remote_supervisor.h"
#include "launch/run_program.h"
#include "launch/shell_word.h"
#include "train/job_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestHostsFile = 16 << 20;

// What the hosts file says already, or what another way to start workers needs.
constexpr std::array<std::string_view, 9> kNotWithLaunch = {
    "--ps-hosts",    "--worker-hosts",    "--job-name", "--task-index", "--server-tasks",
    "--server-port", "--devices-visible", "--join",     "--workers"};

void requireNoPlace(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (std::ranges::count(kNotWithLaunch, flag) > 0)
      throw UsageError(fmt::format("the hosts file says who is where; leave {} out", flag));
  }
}

std::vector<PlannedMember> readHosts(const std::string& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) throw UsageError(fmt::format("--hosts {} is no file", file));
  return parseHostsFile(readWholeFile(file, kLargestHostsFile), file);
}

std::vector<std::string> sshWords(const std::optional<std::string>& given) {
  std::vector<std::string> words = blankSeparated(given.value_or(std::string(kUsualSsh)));
  if (words.empty()) throw UsageError("--ssh needs a program that runs a command on a host, such as ssh");
  return words;
}

std::string membersText(const std::vector<PlannedMember>& members) {
  const auto count = [&](Role role) {
    return std::ranges::count_if(members,
                                 [&](const PlannedMember& member) { return member.place.role == role; });
  };
  std::string text;
  for (const Role role : {Role::Server, Role::Worker, Role::Evaluator}) {
    if (count(role) == 0) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", count(role), toText(role),
                        count(role) == 1 ? "" : "s");
  }
  return text;
}

void showPlan(Screen& screen, const RemotePlan& plan, const std::vector<PlannedMember>& members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    screen.result(fmt::format("# {} on {}\n{}", nameOf(members[i].place), members[i].place.host,
                              shellLine(remoteCommand(plan, members, i))));
  }
}

}  // namespace

int launchCommand(const RunContext& context, const LaunchArguments& arguments) {
  if (arguments.words.front() != "train") {
    throw UsageError(fmt::format("cohort launch trains: write -- train and its options, not -- {}",
                                 arguments.words.front()));
  }
  const TrainArguments train = parseTrainWords(arguments.words);
  requireNoPlace(train.words);
  RemoteSupervision supervision{
      .plan = {.ssh = sshWords(arguments.ssh),
               .program = arguments.remoteProgram.empty() ? ownProgram().string() : arguments.remoteProgram,
               .directory = arguments.directory.empty() ? fs::current_path().string() : arguments.directory,
               .words = train.words,
               .variables = passedVariables(processEnvironment())},
      .members = readHosts(arguments.hosts),
      .maxRestarts = arguments.maxRestarts};
  Console console(stdout, stderr, terminalOptions(train.verbosity));
  const auto workers = std::ranges::count(supervision.members, Role::Worker,
                                          [](const PlannedMember& member) { return member.place.role; });
  Request request = requestOf(context, train, {{"workers", {std::to_string(workers)}}});
  if (!arguments.directory.empty() && !request.directory.is_absolute()) {
    throw UsageError(
        "with --directory, give --job-dir as an absolute path, so that it is the same folder here and there");
  }
  if (request.directory.empty()) {
    request.directory = newJobDirectory(request.config.network);
    auto& words = supervision.plan.words;
    words.insert(words.end(), {"--job-dir", request.directory.string()});
    console.print(
        fmt::format("{}job directory {}", arguments.dryRun ? "# " : "", request.directory.string()));
  }
  if (arguments.dryRun) {
    showPlan(console, supervision.plan, supervision.members);
    return kSuccess;
  }
  supervision.job = request.directory;
  console.print(fmt::format("starting {}; what they print is in {}", membersText(supervision.members),
                            (supervision.job / "logs").string()));
  const int code = superviseRemote(supervision, console);
  console.endProgress();
  if (code == kResume) console.result("stopped after a checkpoint; the same command goes on");
  return code;
}

int attendCommand(const std::vector<std::string>& command) {
  if (command.empty()) throw UsageError("cohort attend needs a command to run");
  return attend(command);
}

}  // namespace cohort
