// How workers are started by mpirun. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

// UsageError where it is not installed.
std::filesystem::path findMpirun();

// Its arguments, its name first, for so many workers that each run `command` on this machine.
std::vector<std::string> mpirunArguments(const std::filesystem::path& mpirun, int workers,
                                         const std::vector<std::string>& command);

// Which worker ended all others with it, as mpirun's own words say.
struct MpirunDeath {
  int rank = -1;   // negative: they say nothing
  int signal = 0;  // that ended it; 0: none
};
// `begin`: what is before it in the file is of an earlier start.
MpirunDeath readMpirunDeath(const std::filesystem::path& file, std::uintmax_t begin);

}  // namespace cohort
