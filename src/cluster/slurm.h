// A SLURM job, as its variables tell of it. srun starts the tasks of a job *step*, and only a step's variables say which of
// them this process is: a batch script has SLURM_PROCID and SLURM_NTASKS too, and is no task of the work.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/environment.h"
#include "cluster/task_map.h"

namespace cohort {

struct SlurmJob {
  std::string id = {};
  std::vector<std::string> hosts = {};
  int restarts = 0;  // how often SLURM has queued it again

  bool operator==(const SlurmJob&) const = default;
};

struct SlurmStep {
  SlurmJob job;
  std::string id;
  TaskMap tasks;
  std::optional<int> coresPerTask = {};  // where srun was told

  bool operator==(const SlurmStep&) const = default;
};

// Nothing where this process is no task of a step. UsageErrors where variables are missing, are none of SLURM's texts, or
// contradict each other: a task must not take another's place.
std::optional<SlurmStep> findSlurmStep(const Environment& environment);

// Nothing where this process belongs to no job; otherwise its job, whether there is a step or not.
std::optional<SlurmJob> findSlurmJob(const Environment& environment);

// What a process of a job that is in no step should be told.
std::string noStepNote(const SlurmJob& job);

// "2(x3),1" -> 2 2 2 1. UsageErrors that name `source`.
std::vector<int> parseTasksPerNode(std::string_view text, const std::string& source);

}  // namespace cohort
