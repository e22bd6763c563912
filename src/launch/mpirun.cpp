#include "launch/mpirun.h"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

fs::path findProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::size_t colon = rest.find(':');
    fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  throw UsageError(
      fmt::format("{} is not installed, which starts the workers; install the package openmpi-bin", name));
}

}  // namespace

fs::path findMpirun() {
  return findProgram("mpirun");
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

}  // namespace cohort
