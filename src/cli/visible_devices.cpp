#include "cli/visible_devices.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/host.h"
#include "cluster/number_list.h"

namespace cohort {

void addDevicesVisible(CLI::App& command, std::string& devices) {
  command.add_option("--devices-visible", devices, "use these cores only, such as 0-3,8")->type_name("LIST");
}

std::vector<int> parseVisibleDevices(const std::string& text, const std::vector<int>& allowed,
                                     const std::string& source) {
  std::vector<int> cores = parseNumberList(text, source);
  std::ranges::sort(cores);
  for (const int core : cores) {
    if (std::ranges::binary_search(allowed, core)) continue;
    throw UsageError(fmt::format(
        "{} {} names core {}, which this process may not use or the machine does not have; it may use {}",
        source, text, core, numberListText(allowed)));
  }
  return cores;
}

void showDevices(const std::string& flag) {
  const char* variable = std::getenv(kDevicesVariable);
  const bool isFlag = !flag.empty();
  if (!isFlag && (variable == nullptr || *variable == '\0')) return;
  const std::string source = isFlag ? "--devices-visible" : kDevicesVariable;
  if (!keepTo(parseVisibleDevices(isFlag ? flag : variable, allowedCores(), source))) {
    throw IoError(fmt::format("{}: the system refuses: {}", source, systemMessage(errno)));
  }
}

}  // namespace cohort
