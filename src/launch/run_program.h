// This program once more, as a process of its own or as several workers, from its start to its end.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

std::filesystem::path ownProgram();

// `words` begin with the program's name. What it prints goes to `log`. A `stop` is passed on. UsageError where it was stopped;
// IoError with its last words where it fails.
void runProgram(const std::vector<std::string>& words, const std::filesystem::path& log,
                const std::atomic<bool>& stop);

// The same as so many workers, by mpirun. UsageError where that is not installed.
void runWorkers(int workers, const std::vector<std::string>& words, const std::filesystem::path& log,
                const std::atomic<bool>& stop);

}  // namespace cohort
