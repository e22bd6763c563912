#include "launch/mpirun.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/atomic_file.h"
#include "launch/find_program.h"

namespace cohort {

namespace fs = std::filesystem;

fs::path findMpirun() {
  return findProgram("mpirun", "which starts the workers; install the package openmpi-bin");
}

std::vector<std::string> mpirunArguments(const fs::path& mpirun, int workers,
                                         const std::vector<std::string>& command) {
  std::vector<std::string> arguments = {
      mpirun.string(), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
      // A process that waits inside MPI gives its core away; lanes pin themselves.
      "--mca", "mpi_yield_when_idle", "1",
      // When one worker dies, the others need no time to say farewell: the last checkpoint counts.
      "--mca", "odls_base_sigkill_timeout", "0", "-np", std::to_string(workers)};
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

MpirunDeath readMpirunDeath(const fs::path& file, std::uintmax_t begin) {
  std::string log = readWholeFile(file);
  log.erase(0, std::min<std::size_t>(log.size(), begin));
  constexpr std::string_view kRank = "process rank ";
  constexpr std::string_view kSignal = "exited on signal ";
  const auto numberAfter = [&](std::string_view words) {
    const std::size_t at = log.find(words);
    int number = -1;
    if (at != std::string::npos) {
      std::from_chars(log.data() + at + words.size(), log.data() + log.size(), number);
    }
    return number;
  };
  return {.rank = numberAfter(kRank), .signal = std::max(0, numberAfter(kSignal))};
}

}  // namespace cohort
