// SLURM's jobs, by its own commands: sbatch, scontrol and scancel. Any thread.
//
// UsageError where these are not installed. Each waits for the controller as long as SLURM's commands do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cohort {

struct SlurmJobState {
  std::string state = {};   // "PENDING", "RUNNING", "COMPLETED" …
  std::string reason = {};  // why it waits, or has ended so; empty where SLURM says "None"
  std::string nodes = {};   // "n[1-3]"; empty where it has none
  int exitCode = 0;         // of the batch script
  int restarts = 0;         // how often SLURM has queued it again

  // It will not run again by itself.
  bool isOver() const;
  bool operator==(const SlurmJobState&) const = default;
};

// The number of the new job. IoError with sbatch's words where it refuses the script.
std::string submitJob(const std::filesystem::path& script);

// Nothing where SLURM does not know the job: some minutes after its end it forgets it.
std::optional<SlurmJobState> stateOfJob(const std::string& job);

// IoError with scancel's words where it cannot be cancelled.
void cancelJob(const std::string& job);

// From what `sbatch --parsable` prints: "17", or "17;CLUSTER"; other lines are a site's own. Nothing where there is no number.
std::optional<std::string> parseSubmission(const std::string& text);

// From what `scontrol --oneliner show job` prints. Nothing where it tells no state.
std::optional<SlurmJobState> parseJobState(const std::string& text);

// "job 17: RUNNING on n[1-3], start 2".
std::string toText(const std::string& job, const SlurmJobState& state);

}  // namespace cohort
