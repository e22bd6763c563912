// cohort serve: one server of a center.
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "center/server.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "launch/supervisor_link.h"
#include "report/console.h"

namespace cohort {
namespace {

constexpr double kLook = 0.1;     // seconds
constexpr double kFarewell = 10;  // for workers to go, when the run is over

// Given, or made for this run where strangers could come.
std::optional<Credentials> credentialsOf(const ServeArguments& arguments, Console& console) {
  if (!arguments.credentials.empty()) return readCredentials(arguments.credentials);
  if (arguments.insecure || isPrivateAddress(arguments.listen)) return std::nullopt;
  if (arguments.index > 0) {
    throw UsageError("give --credentials FILE: all servers of a run have the file that the first one makes");
  }
  const std::filesystem::path file = std::filesystem::path(arguments.jobDirectory) / "credentials.pem";
  std::filesystem::create_directories(file.parent_path());
  if (!std::filesystem::exists(file)) writeCredentials(file, makeCredentials(arguments.jobDirectory));
  console.print(
      fmt::format("workers and other servers need {} (--credentials); keep it secret", file.string()));
  return readCredentials(file);
}

}  // namespace

int credentialsCommand(const std::string& file) {
  if (std::filesystem::exists(file)) {
    throw UsageError(
        fmt::format("{} exists; whoever has a copy could no longer join. Give a new name", file));
  }
  writeCredentials(file, makeCredentials(std::filesystem::path(file).stem().string()));
  Console console(stdout, stderr, {});
  console.print(
      fmt::format("{} is for all servers and workers of a run (--credentials); keep it secret", file));
  return kSuccess;
}

int serveCommand(const ServeArguments& arguments) {
  if (arguments.index >= arguments.servers) {
    throw UsageError(fmt::format("--server-index {} of {} servers: they are numbered from 0 to {}",
                                 arguments.index, arguments.servers, arguments.servers - 1));
  }
  if (parseAddresses(arguments.listen, "--listen").size() > 1)
    throw UsageError("--listen takes one address: HOST:PORT (or unix:PATH)");
  keepLargeBlocks();
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  const StopFlag& stop = stopOnSignals();
  // What was sent to all processes at once comes a second time from the supervisor.
  if (std::getenv(kSupervisorVariable) != nullptr) ignoreFurtherSignals();
  const double snapshotSeconds = parseDuration(arguments.snapshotEvery, "--snapshot-every");
  const std::filesystem::path folder = arguments.jobDirectory;
  std::filesystem::create_directories(folder);
  const std::filesystem::path snapshot = folder / fmt::format("server-{}.snapshot", arguments.index);
  CenterServer server({.index = arguments.index,
                       .count = arguments.servers,
                       .listen = arguments.listen,
                       .credentials = credentialsOf(arguments, console),
                       .snapshot = snapshotSeconds > 0 ? snapshot : "",
                       .snapshotSeconds = snapshotSeconds,
                       .warn = [&console](const std::string& what) { console.warn(what); }});
  console.print(
      fmt::format("server {} of {} listens at {}", arguments.index, arguments.servers, server.address()));
  std::fflush(stdout);
  std::optional<Clock::time_point> asked;
  while (!server.isOver(kLook)) {
    if (!stop) continue;
    // Without a run there is nothing to keep.
    if (!server.halt()) return kResume;
    if (!asked) console.print("asked to stop: the run ends after a checkpoint");
    asked = asked.value_or(Clock::now());
  }
  std::error_code ignored;
  std::filesystem::remove(snapshot, ignored);  // the run's checkpoint has it all
  const Clock::time_point over = Clock::now();
  while (server.hasWorkers() && secondsSince(over) < kFarewell) server.wait(kLook);
  return asked ? kResume : kSuccess;
}

}  // namespace cohort
