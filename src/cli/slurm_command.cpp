// cohort slurm: a run as a SLURM job: its batch script, and the job that is made of it.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/train_options.h"
#include "cli/train_request.h"
#include "launch/batch_script.h"
#include "launch/folders.h"
#include "launch/run_program.h"
#include "launch/slurm_client.h"
#include "report/console.h"
#include "report/metrics_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct SlurmArguments {
  BatchJob job;
  std::string prologueFile;
  std::vector<std::string> words;  // train …
  bool isDetached = false;
  std::string jobDirectory;  // of status and cancel
};

fs::path scriptOf(const fs::path& jobDirectory) {
  return slurmFolder(jobDirectory) / "job.sh";
}

fs::path jobFileOf(const fs::path& jobDirectory) {
  return slurmFolder(jobDirectory) / "job-id";
}

// The job that was last submitted for this run.
std::optional<std::string> submittedJob(const fs::path& jobDirectory) {
  const fs::path file = jobFileOf(jobDirectory);
  if (!fs::exists(file)) return std::nullopt;
  std::string id = readWholeFile(file);
  while (id.ends_with('\n')) id.pop_back();
  return id;
}

std::string requireSubmittedJob(const fs::path& jobDirectory) {
  if (std::optional<std::string> id = submittedJob(jobDirectory)) return *id;
  throw UsageError(fmt::format("no job was submitted for {}: there is no {}", jobDirectory.string(),
                               jobFileOf(jobDirectory).string()));
}

// What is asked for behind the dashes: it is checked here, and not when the job's turn has come.
Request trainRequest(const RunContext& context, const SlurmArguments& arguments) {
  if (arguments.words.empty() || arguments.words.front() != "train") {
    throw UsageError(
        "cohort slurm takes a run behind two dashes: cohort slurm submit --nodes 3 -- train --network …");
  }
  const TrainArguments train = parseTrainWords(arguments.words);
  const int tasks = arguments.job.nodes * arguments.job.tasksPerNode;
  Request request = requestOf(context, train, isGiven(train, "groups") ? asOneEach(tasks) : GivenSettings{});
  if (hasCenter(request.config) || train.place.serverTasks) return request;  // not all tasks are workers
  return requestOf(context, train, {{"workers", {std::to_string(tasks)}}});
}

// Completes the job and writes its script; returns the run's folder.
fs::path writeScript(const RunContext& context, SlurmArguments& arguments) {
  BatchJob& job = arguments.job;
  const Request request = trainRequest(context, arguments);
  job.command = {ownProgram().string()};
  job.command.insert(job.command.end(), arguments.words.begin(), arguments.words.end());
  fs::path directory = request.directory;
  if (directory.empty()) {
    directory = newJobDirectory(request.config.network);
    job.command.insert(job.command.end(), {"--job-dir", directory.string()});
  }
  job.startFolder = fs::current_path();
  job.jobDirectory = fs::absolute(directory).lexically_normal();
  if (job.name.empty()) job.name = job.jobDirectory.filename().string();
  if (!arguments.prologueFile.empty()) job.prologue = readWholeFile(arguments.prologueFile);
  const std::string script = batchScript(job);
  makeFolder(slurmFolder(directory));
  writeWholeFile(scriptOf(directory), script);
  return directory;
}

std::string scriptText(const fs::path& directory, const BatchJob& job) {
  return fmt::format("{}: {} node{} with {} task{} each", scriptOf(directory).string(), job.nodes,
                     job.nodes == 1 ? "" : "s", job.tasksPerNode, job.tasksPerNode == 1 ? "" : "s");
}

int writeCommand(const RunContext& context, SlurmArguments& arguments) {
  const fs::path directory = writeScript(context, arguments);
  Console(stdout, stderr, {}).print(scriptText(directory, arguments.job));
  return kSuccess;
}

// The whole lines that a file has got since the last look.
class GrowingFile {
 public:
  explicit GrowingFile(fs::path path) : path_(std::move(path)) {}

  std::vector<std::string> newLines() {
    std::ifstream stream(path_, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(read_));
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line) && !stream.eof();) {
      read_ += line.size() + 1;
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  fs::path path_;
  std::size_t read_ = 0;
};

// A run's own line of progress, of which only the last counts on a terminal.
bool isProgress(const std::string& line) {
  const std::size_t number = line.find_first_not_of("0123456789", 5);
  return line.starts_with("step ") && number != std::string::npos && number > 5 &&
         (line[number] == '/' || line.compare(number, 2, "  ") == 0);
}

// Shows the job on a console until it is over.
class Follower {
 public:
  Follower(Console& console, const fs::path& directory, std::string id)
      : console_(console),
        id_(std::move(id)),
        output_(slurmFolder(directory) / fmt::format("job-{}.txt", id_)) {}

  // The exit code of the job; nothing while it goes on.
  std::optional<int> look() {
    constexpr double kAskSeconds = 2;  // many who ask more often are a burden to SLURM
    const std::vector<std::string> lines = output_.newLines();
    const bool isNews = !lines.empty() && shown_ && shown_->state != "RUNNING";
    if (shown_ && !isNews && secondsSince(asked_) < kAskSeconds) {
      show(lines);
      return std::nullopt;
    }
    asked_ = Clock::now();
    const std::optional<SlurmJobState> state = stateOfJob(id_);
    const bool isOver = !state || state->isOver();
    // A begin is told before what the job prints, and an end after all of it.
    if (!isOver) showState(*state);
    show(lines);
    if (!isOver) return std::nullopt;
    show(output_.newLines());
    return showEnd(state);
  }

 private:
  int showEnd(const std::optional<SlurmJobState>& state) {
    if (!state) {
      console_.result(fmt::format("job {} is over, and SLURM has forgotten how it ended", id_));
      return kSuccess;
    }
    showState(*state);
    if (state->state == "COMPLETED") return kSuccess;
    return state->exitCode == 0 ? kPeerError : state->exitCode;
  }

  void showState(const SlurmJobState& state) {
    if (shown_ != state) console_.result(toText(id_, state));
    shown_ = state;
  }

  void show(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (console_.live() && isProgress(line)) {
        console_.status(line);
      } else {
        console_.print(line);
      }
    }
  }

  Console& console_;
  std::string id_;
  GrowingFile output_;
  std::optional<SlurmJobState> shown_;
  Clock::time_point asked_;
};

int follow(Console& console, const fs::path& directory, const std::string& id) {
  constexpr std::chrono::milliseconds kLook{200};
  const StopFlag& stop = stopOnSignals();
  Follower follower(console, directory, id);
  while (!stop) {
    if (const std::optional<int> code = follower.look()) return *code;
    std::this_thread::sleep_for(kLook);
  }
  console.result(
      fmt::format("job {0} goes on; cohort slurm status {1} tells how, cohort slurm cancel {1} ends it", id,
                  directory.string()));
  return kSuccess;
}

// Two jobs of one run would stand in each other's way.
void requireNoOtherJob(const fs::path& directory) {
  const std::optional<std::string> id = directory.empty() ? std::nullopt : submittedJob(directory);
  if (!id) return;
  const std::optional<SlurmJobState> state = stateOfJob(*id);
  if (!state || state->isOver()) return;
  throw UsageError(fmt::format("this run has a job already ({}); end it with cohort slurm cancel {}",
                               toText(*id, *state), directory.string()));
}

int submitCommand(const RunContext& context, SlurmArguments& arguments) {
  requireNoOtherJob(trainRequest(context, arguments).directory);
  const fs::path directory = writeScript(context, arguments);
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  console.print(scriptText(directory, arguments.job));
  const std::string id = submitJob(scriptOf(directory));
  writeWholeFile(jobFileOf(directory), id + "\n");
  console.result(fmt::format("submitted as job {}", id));
  return arguments.isDetached ? kSuccess : follow(console, directory, id);
}

// As far as the run has recorded it.
std::string lastStepText(const fs::path& directory) {
  const fs::path file = directory / "metrics.jsonl";
  const Metrics metrics = fs::exists(file) ? readMetrics(file) : Metrics();
  if (metrics.training.empty()) return "no step recorded yet";
  const TrainPoint& last = metrics.training.back();
  return fmt::format("step {}: loss {:.4f}, {:.0f} images/s", last.step, last.loss, last.imagesPerSecond);
}

int slurmStatusCommand(const std::string& directory) {
  const std::string id = requireSubmittedJob(directory);
  const std::optional<SlurmJobState> state = stateOfJob(id);
  Console console(stdout, stderr, {});
  console.print(state ? toText(id, *state) : fmt::format("job {}: over, and forgotten by SLURM", id));
  console.print(lastStepText(directory));
  return kSuccess;
}

int cancelCommand(const std::string& directory) {
  const std::string id = requireSubmittedJob(directory);
  cancelJob(id);
  Console(stdout, stderr, {})
      .print(fmt::format("job {} is cancelled; its run can go on from its last checkpoint: sbatch {}", id,
                         scriptOf(directory).string()));
  return kSuccess;
}

void addJobOptions(CLI::App& command, SlurmArguments& arguments) {
  BatchJob& job = arguments.job;
  command.add_option("--nodes", job.nodes, "nodes of the job")
      ->type_name("N")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--tasks-per-node", job.tasksPerNode, "tasks (workers) on each node")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--cpus-per-task", job.cpusPerTask, "cores of each task (default: the cluster's)")
      ->type_name("C")
      ->check(CLI::Range(1, 4096));
  command.add_option("--time", job.time, "the job's time limit (default: the partition's)")
      ->type_name("H:MM:SS");
  command
      .add_option("--grace", job.graceSeconds,
                  "seconds before the time limit at which the run stops and is queued again")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command
      .add_option("--max-restarts", job.maxRestarts,
                  "restarts of the tasks without a new checkpoint, after which the job fails")
      ->type_name("N")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--name", job.name, "the job's name (default: that of the run's folder)")
      ->type_name("NAME");
  command
      .add_option("--sbatch", job.sbatch,
                  "a further option of sbatch, such as partition=long; may be repeated")
      ->type_name("OPTION")
      ->expected(1)
      ->allow_extra_args(false)  // or it would take the two dashes for itself
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--prologue", arguments.prologueFile,
                  "lines of shell that go before the run: module load …")
      ->type_name("FILE");
  command.add_option("TRAIN", arguments.words, "behind two dashes: train, and its options")->type_name("");
}

}  // namespace

void addSlurmCommands(CLI::App& app, const RunContext& context, int& exitCode) {
  const auto arguments = std::make_shared<SlurmArguments>();
  arguments->job.name.clear();  // the folder's, where nobody gives another
  CLI::App* const slurm =
      app.add_subcommand("slurm", "A run as a SLURM job: its batch script, and the job made of it");
  slurm->callback([slurm] {
    if (slurm->get_subcommands().empty())
      throw UsageError(
          "the word after cohort slurm is write, submit, status or cancel (see cohort slurm --help)");
  });
  CLI::App* command = slurm->add_subcommand("write", "Write the batch script to JOB_DIR/slurm/job.sh");
  addJobOptions(*command, *arguments);
  command->callback([arguments, &context, &exitCode] { exitCode = writeCommand(context, *arguments); });
  command = slurm->add_subcommand("submit", "Write it, give it to sbatch, and show the run as it goes");
  addJobOptions(*command, *arguments);
  command->add_flag("--no-follow", arguments->isDetached, "return when the job is submitted");
  command->footer("Ctrl-C ends the showing; the job goes on.");
  command->callback([arguments, &context, &exitCode] { exitCode = submitCommand(context, *arguments); });
  const auto addAction = [&](const char* name, const char* help, int (*action)(const std::string&)) {
    command = slurm->add_subcommand(name, help);
    command->add_option("JOB_DIR", arguments->jobDirectory, "the run's folder")->type_name("")->required();
    command->callback([arguments, action, &exitCode] { exitCode = action(arguments->jobDirectory); });
  };
  addAction("status", "What SLURM says of a run's job, and the last step", slurmStatusCommand);
  addAction("cancel", "End a run's job", cancelCommand);
}

}  // namespace cohort
