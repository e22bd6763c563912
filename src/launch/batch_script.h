// The batch script by which a run becomes a SLURM job: a value in, a commented text out.
//
// The script starts all tasks of the run by srun, and again where one dies, as cohort train --workers does. SIGUSR1 and SIGTERM (a
// time limit, a preemption) become a wish of all tasks to stop: they write a checkpoint and end with code 75, and the job goes back
// into the queue, to go on from there on whatever nodes it gets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

// How many seconds the script's tasks have for their last checkpoint; training compares.
inline constexpr const char* kGraceVariable = "COHORT_GRACE_SECONDS";

struct BatchJob {
  std::string name = "cohort";
  int nodes = 1;
  int tasksPerNode = 1;
  int cpusPerTask = 0;                      // 0: as the cluster is set up
  std::string time = {};                    // as sbatch has it, "1:00:00"; empty: the partition's
  int graceSeconds = 120;                   // before the time limit
  int maxRestarts = 3;                      // of the tasks, without a new checkpoint between them
  std::vector<std::string> sbatch = {};     // further options: "--partition=long", or without the dashes
  std::string prologue = {};                // lines of shell that go before the run: modules, environments
  std::filesystem::path startFolder = {};   // where the command's relative paths begin
  std::filesystem::path jobDirectory = {};  // of the run, absolute
  std::vector<std::string> command = {};    // what every task runs: the program and its arguments
};

// For the script, the job's number and what the job prints.
std::filesystem::path slurmFolder(const std::filesystem::path& jobDirectory);

// UsageError where sbatch would not understand it: an option of several lines, a time that is none.
std::string batchScript(const BatchJob& job);

}  // namespace cohort
