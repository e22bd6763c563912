// cohort status: where a run stands, and how its center is.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "center/client.h"
#include "center/status.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "launch/center_file.h"
#include "launch/run_status.h"
#include "report/console.h"

namespace cohort {
namespace {

constexpr double kPatience = 10;  // seconds

struct Place {
  std::vector<CenterPlaces::Server> servers;
  std::string credentials;
};

// A folder says where its center is, and what is needed there.
Place placeOf(const StatusArguments& arguments) {
  Place place{.servers = {}, .credentials = arguments.credentials};
  std::error_code unreadable;
  if (!std::filesystem::is_directory(arguments.center, unreadable)) {
    const std::string where = "there is no such folder, and cohort status";
    for (const std::string& address : parseAddresses(arguments.center, where))
      place.servers.push_back({static_cast<int>(place.servers.size()), address});
    return place;
  }
  CenterPlaces found = readCenterFiles(arguments.center);
  place.servers = std::move(found.servers);
  if (place.credentials.empty() && !arguments.insecure) place.credentials = found.credentials.string();
  return place;
}

std::string bytesText(std::uint64_t bytes) {
  return bytes < 10'000'000 ? fmt::format("{:.1f} kB", static_cast<double>(bytes) * 1e-3)
                            : fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

// "0: 812, 1: 40, 2-3: 2"
std::string stalenessText(const std::vector<std::int64_t>& counts) {
  std::string text;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] == 0) continue;
    const std::int64_t least = bin == 0 ? 0 : std::int64_t{1} << (bin - 1);
    const std::int64_t most = bin == 0 ? 0 : (std::int64_t{1} << bin) - 1;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ",
                        least == most ? fmt::format("{}", least) : fmt::format("{}-{}", least, most),
                        counts[bin]);
  }
  return text.empty() ? "none yet" : text;
}

std::string sharesText(const ServerStatus::Shares& shares) {
  const double all = static_cast<double>(shares.workers + shares.mail + shares.nobodys) / 100;
  return fmt::format("  shares: workers {:.1f} %, mail {:.1f} %, nobody's {:.1f} %",
                     static_cast<double>(shares.workers) / all, static_cast<double>(shares.mail) / all,
                     static_cast<double>(shares.nobodys) / all);
}

void print(Console& console, const ServerStatus& status, const CenterPlaces::Server& server) {
  const std::string name = fmt::format("server {} at {}", server.index, server.address);
  if (!status.isOpen) {
    console.print(fmt::format("{}: no run yet", name));
    return;
  }
  if (server.index == 0) {
    const std::string end = status.target ? fmt::format(" of {}", *status.target) : "";
    console.print(fmt::format("{}: step {}{}, {} member{}, {} gradient{} dropped", printable(status.rule),
                              status.done, end, status.members.size(), status.members.size() == 1 ? "" : "s",
                              status.dropped, status.dropped == 1 ? "" : "s"));
    for (const ServerStatus::Member& member : status.members) {
      console.print(fmt::format("  {}{}: {} works, the last of step {}", printable(member.name),
                                member.isChief ? " (chief)" : "", member.finished, member.step));
    }
  }
  console.print(fmt::format(
      "{}: {} parameters, {} updates ({:.3f} ms each), {} received, {} sent, {} duplicates, {} lost", name,
      status.floats, status.version,
      status.updateSeconds * 1e3 / static_cast<double>(std::max<Step>(1, status.version)),
      bytesText(status.bytesReceived), bytesText(status.bytesSent), status.duplicates, status.lost));
  if (status.shares) return console.print(sharesText(*status.shares));
  console.print(fmt::format("  updates by staleness: {}", stalenessText(status.staleness)));
}

// ---- what a run's processes say of themselves

std::string secondsText(double seconds) {
  return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
}

// "in forward conv2", "exchanging, waiting for worker 1: …".
std::string doingText(const ProcessView& process) {
  const WorkerStatus& status = process.status;
  if (!status.failure.empty()) return fmt::format("failed: {}", printable(status.failure));
  if (process.isGone) return fmt::format("gone; it was {}", printable(status.doing));
  if (!status.waitsForAnother) return printable(status.doing);
  return printable(fmt::format("{}, waiting for {}", status.doing, status.waitsFor));
}

std::string ageText(const ProcessView& process) {
  constexpr double kOld = 3;  // it is written once a second
  return !process.isGone && process.age >= kOld
             ? fmt::format(" (no sign of life for {})", secondsText(process.age))
             : "";
}

void print(Console& console, const RunView& run) {
  constexpr const char* kRow = "{:<9} {:<{}} {:>8} {:>8} {:>8}  {}{}";
  std::size_t hosts = 4;
  for (const ProcessView& process : run.processes) hosts = std::max(hosts, process.status.host.size());
  if (!run.processes.empty())
    console.print(fmt::format(kRow, "", "host", hosts, "process", "step", "for", "doing", ""));
  for (const ProcessView& process : run.processes) {
    const WorkerStatus& status = process.status;
    console.print(
        fmt::format(kRow, fmt::format("{} {}", status.isServer ? "server" : "worker", printable(status.name)),
                    printable(status.host), hosts, status.process, status.step,
                    secondsText(status.doingSeconds), doingText(process), ageText(process)));
  }
  console.print(run.verdict);
}

}  // namespace

int statusCommand(const StatusArguments& arguments) {
  const Place place = placeOf(arguments);
  std::error_code unreadable;
  if (std::filesystem::is_directory(arguments.center, unreadable)) {
    Console console(stdout, stderr, {});
    print(console, lookAtRun(arguments.center, !place.servers.empty()));
    std::fflush(stdout);
    if (place.servers.empty()) return kSuccess;
  }
  std::vector<std::string> addresses;
  for (const CenterPlaces::Server& server : place.servers) addresses.push_back(server.address);
  const auto credentials = credentialsFor(addresses, place.credentials, arguments.insecure);
  const std::vector<ServerStatus> all = fetchStatus(*connectorTo(addresses, credentials), kPatience);
  Console console(stdout, stderr, {});
  for (std::size_t i = 0; i < all.size(); ++i) print(console, all[i], place.servers[i]);
  return kSuccess;
}

}  // namespace cohort
