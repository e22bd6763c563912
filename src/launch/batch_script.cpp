#include "launch/batch_script.h"

#include <algorithm>
#include <regex>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "launch/shell_word.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = R"sh(#!/bin/bash
# A training run as a SLURM job, written by cohort slurm. Change what you like, and give it to sbatch; cohort slurm
# submit writes it anew.
)sh";

constexpr std::string_view kRun = R"sh(
# How long the last checkpoint may take: the run says at its start where that is too short.
export {graceVariable}={grace}

# A time limit or a preemption: every task gets SIGUSR1, writes a checkpoint after its step and ends with code 75.
# (srun does not pass SIGTERM on: it would kill the tasks.)
asked=
srun=
ask_to_stop() {{
  asked=yes
  [ -z "$srun" ] || kill -USR1 "$srun" 2>/dev/null
}}
trap ask_to_stop USR1 TERM

# All tasks; where one dies, the others end too (-K). A signal ends wait early, so it waits again.
run_tasks() {{
  srun -K --mpi=pmix {taskOptions}\
    {command} </dev/null &
  srun=$!
  # Whoever asked before srun had a number is heard now.
  [ -z "$asked" ] || ask_to_stop
  while kill -0 "$srun" 2>/dev/null; do wait "$srun"; done
  wait "$srun"
  code=$?
  srun=
}}

# Back into the queue, unless the job was cancelled. It goes on from the checkpoint, on the nodes that it gets then.
requeue() {{
  [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ] || exit "$code"
  echo "cohort: stopped with code $code; the job goes back into the queue"
  scontrol requeue "$SLURM_JOB_ID" && exit 0
  echo "cohort: SLURM does not queue the job again; go on with: sbatch" {script}
  exit 75
}}

newest_checkpoint() {{ ls {checkpoints} 2>/dev/null | tail -n 1; }}

restarts=0
while true; do
  before=$(newest_checkpoint)
  run_tasks
  case $code in
    0) exit 0 ;;
    2) exit 2 ;; # wrong usage: another start would end the same way
    75) requeue ;;
  esac
  [ -z "$asked" ] || requeue
  [ "$(newest_checkpoint)" = "$before" ] || restarts=0
  if [ "$restarts" -ge {restarts} ]; then
    echo "cohort: given up after $restarts restarts without a new checkpoint"
    exit "$code"
  fi
  restarts=$((restarts + 1))
  echo "cohort: the tasks ended with code $code; starting them again ($restarts of {restarts})"
  # A node that does not answer is noticed by SLURM too, which then ends this script and queues the job again.
  until srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" true </dev/null; do
    [ -z "$asked" ] || requeue
    sleep 5
  done
done
)sh";

// Minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
void requireTime(const std::string& time) {
  static const std::regex kTime(R"(\d{1,6}(:\d{1,2}){0,2}|\d{1,4}-\d{1,2}(:\d{1,2}){0,2})");
  if (time.empty() || std::regex_match(time, kTime)) return;
  throw UsageError(
      fmt::format("--time takes HOURS:MINUTES:SECONDS or DAYS-HOURS, such as 1:30:00, not '{}'", time));
}

// With its dashes.
std::string sbatchOption(const std::string& text) {
  if (text.empty() || text.find_first_of("\n\r") != std::string::npos) {
    throw UsageError("--sbatch takes one option of sbatch, such as partition=long; give it once for each");
  }
  return text.starts_with('-') ? text : "--" + text;
}

// In #SBATCH lines % begins a name for something else.
std::string literalPath(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

std::string directives(const BatchJob& job) {
  std::string text;
  const auto add = [&](const std::string& option) { text += fmt::format("#SBATCH {}\n", option); };
  const auto comment = [&](std::string_view line) { text += fmt::format("# {}\n", line); };
  add("--job-name=" + shellWord(job.name));
  add(fmt::format("--nodes={}", job.nodes));
  add(fmt::format("--ntasks-per-node={}", job.tasksPerNode));
  if (job.cpusPerTask > 0) add(fmt::format("--cpus-per-task={}", job.cpusPerTask));
  if (!job.time.empty()) add("--time=" + job.time);
  comment("A job that comes back, after a node's failure or a preemption, goes on in the same file.");
  add("--requeue");
  add("--open-mode=append");
  add("--output=" + shellWord(literalPath(slurmFolder(job.jobDirectory)) + "/job-%j.txt"));
  add("--chdir=" + shellWord(job.startFolder.string()));
  comment("So many seconds before the time limit, this script is told.");
  add(fmt::format("--signal=B:USR1@{}", job.graceSeconds));
  if (!job.sbatch.empty()) comment("By --sbatch:");
  for (const std::string& option : job.sbatch) add(sbatchOption(option));
  return text;
}

std::string prologueText(const std::string& lines) {
  if (lines.empty()) return "";
  return "\n# By --prologue:\n" + lines + (lines.ends_with('\n') ? "" : "\n");
}

}  // namespace

fs::path slurmFolder(const fs::path& jobDirectory) {
  return jobDirectory / "slurm";
}

std::string batchScript(const BatchJob& job) {
  requireTime(job.time);
  // srun does not take this over from sbatch.
  const std::string taskOptions =
      job.cpusPerTask > 0 ? fmt::format("--cpus-per-task={} ", job.cpusPerTask) : "";
  return std::string(kHead) + directives(job) + prologueText(job.prologue) +
         fmt::format(fmt::runtime(kRun), fmt::arg("graceVariable", kGraceVariable),
                     fmt::arg("grace", job.graceSeconds), fmt::arg("taskOptions", taskOptions),
                     fmt::arg("command", shellLine(job.command)),
                     fmt::arg("script", shellWord((slurmFolder(job.jobDirectory) / "job.sh").string())),
                     fmt::arg("checkpoints", shellWord((job.jobDirectory / "checkpoints").string())),
                     fmt::arg("restarts", job.maxRestarts));
}

}  // namespace cohort
