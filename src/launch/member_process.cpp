#include "launch/member_process.h"

#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "launch/center_supervisor.h"
#include "launch/mpirun.h"
#include "launch/worker_cores.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr double kFarewellSeconds = 5;

std::uintmax_t sizeOf(const fs::path& file) {
  std::error_code none;
  const std::uintmax_t size = fs::file_size(file, none);
  return none ? 0 : size;
}

// mpirun gives all of its workers the same environment: each finds its own part by its rank.
std::vector<std::string> variablesOf(const MemberProcess::Options& options) {
  std::vector<std::string> cores;
  for (const OwnedCores& owned : options.cores) cores.push_back(ownedCoresText(owned));
  std::vector<std::string> variables{
      options.supervisor,
      fmt::format("{}={}", cores.size() > 1 ? kGroupVariable : kWorkerVariable, options.first),
      fmt::format("{}={}", kWorkerCoresVariable, fmt::join(cores, kNextWorker))};
  if (!options.group.empty())
    variables.push_back(fmt::format("{}={}", kGroupAddressesVariable, fmt::join(options.group, ",")));
  return variables;
}

ChildProcess start(const MemberProcess::Options& options) {
  if (options.cores.size() == 1) {
    return {options.command.front(), options.command, options.log, variablesOf(options), SIGKILL};
  }
  const fs::path mpirun = findMpirun();
  return {mpirun, mpirunArguments(mpirun, static_cast<int>(options.cores.size()), options.command),
          options.log, variablesOf(options), SIGKILL};
}

}  // namespace

MemberProcess::MemberProcess(const Options& options)
    : first_(options.first),
      size_(static_cast<int>(options.cores.size())),
      log_(options.log),
      logBegin_(sizeOf(options.log)),
      process_(start(options)) {}

MemberProcess::~MemberProcess() {
  if (!isGroup() || process_.exitCode()) return;
  process_.signal(SIGTERM);
  const Clock::time_point start = Clock::now();
  while (!process_.exitCode() && secondsSince(start) < kFarewellSeconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

MemberProcess::Death MemberProcess::deathOf(int code) const {
  if (!isGroup()) return {.worker = first_, .code = code};
  constexpr int kSignals = 128;
  const MpirunDeath death = readMpirunDeath(log_, logBegin_);
  if (death.rank < 0) return {.code = code};
  return {.worker = first_ + death.rank, .code = death.signal > 0 ? kSignals + death.signal : code};
}

}  // namespace cohort
