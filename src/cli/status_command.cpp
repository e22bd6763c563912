// cohort status: how a running center is.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "center/client.h"
#include "center/status.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "launch/center_supervisor.h"
#include "report/console.h"

namespace cohort {
namespace {

constexpr double kPatience = 10;  // seconds

std::string addressesOf(const std::string& center) {
  if (!std::filesystem::is_directory(center)) return center;
  const std::filesystem::path file = std::filesystem::path(center) / kCenterFile;
  if (!std::filesystem::exists(file)) {
    throw UsageError(
        fmt::format("no center is running in {}; give HOST:PORT,... of its servers, or look at "
                    "its summary.json",
                    center));
  }
  std::string text = readWholeFile(file);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
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

void print(Console& console, const ServerStatus& status, bool leads) {
  if (!status.isOpen) {
    console.print(fmt::format("{}: no run yet", status.name));
    return;
  }
  if (leads) {
    const std::string end = status.target ? fmt::format(" of {}", *status.target) : "";
    console.print(fmt::format("{}: step {}{}, {} member{}, {} gradient{} dropped", status.rule, status.done,
                              end, status.members.size(), status.members.size() == 1 ? "" : "s",
                              status.dropped, status.dropped == 1 ? "" : "s"));
    for (const ServerStatus::Member& member : status.members) {
      console.print(fmt::format("  {}{}: {} works, the last of step {}", member.name,
                                member.isChief ? " (chief)" : "", member.finished, member.step));
    }
  }
  console.print(fmt::format(
      "{}: {} parameters, {} updates ({:.3f} ms each), {} received, {} sent, {} duplicates, "
      "{} lost",
      status.name, status.floats, status.version,
      status.updateSeconds * 1e3 / static_cast<double>(std::max<Step>(1, status.version)),
      bytesText(status.bytesReceived), bytesText(status.bytesSent), status.duplicates, status.lost));
  console.print(fmt::format("  updates by staleness: {}", stalenessText(status.staleness)));
}

}  // namespace

int statusCommand(const StatusArguments& arguments) {
  const std::vector<std::string> addresses = parseAddresses(addressesOf(arguments.center), "cohort status");
  std::optional<Credentials> credentials;
  if (!arguments.credentials.empty()) credentials = readCredentials(arguments.credentials);
  const std::shared_ptr<Connector> servers = connectorTo(addresses, credentials);
  Console console(stdout, stderr, {});
  bool leads = true;
  for (const ServerStatus& status : fetchStatus(*servers, kPatience)) {
    print(console, status, leads);
    leads = false;
  }
  return kSuccess;
}

}  // namespace cohort
