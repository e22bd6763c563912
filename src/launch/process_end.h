// How processes of a run end, in the words of both supervisors. Private to launch.
#pragma once

#include <string>

#include "launch/worker_message.h"
#include "train/job_directory.h"

namespace cohort {

// Exit codes that a supervisor acts on, as the command line has them.
inline constexpr int kUsageCode = 2;
inline constexpr int kIoCode = 3;
inline constexpr int kPeerCode = 4;
inline constexpr int kResumeCode = 75;

// "was ended by signal 9 (Killed)", for 128 + a signal; "ended with code 3".
std::string deathText(int code);

// "worker 1", "server 0".
std::string nameOf(const WorkerMessage& message);

// What it failed with: a UsageError is the user's to mend and says all itself, others name who failed.
[[noreturn]] void throwFailure(const WorkerMessage& failure);

// For a sentence that goes on behind it: without a full stop.
std::string unfinished(std::string sentence);

// The last step of a run's checkpoints; -1 where it has none.
Step newestCheckpoint(const JobDirectory& job);
// Where the same command goes on: "the checkpoint of step 300", "the beginning" where `step` is negative.
std::string placeText(Step step);

}  // namespace cohort
