// How workers are started by mpirun. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

// UsageError where it is not installed.
std::filesystem::path findMpirun();

// Its arguments, its name first, for so many workers that each run `command` on this machine.
std::vector<std::string> mpirunArguments(const std::filesystem::path& mpirun, int workers,
                                         const std::vector<std::string>& command);

}  // namespace cohort
