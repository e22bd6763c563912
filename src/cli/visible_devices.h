// The cores that a user lets the program see. Private to cli.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort {

// Named by the flag --devices-visible, or where that is empty by this.
inline constexpr const char* kDevicesVariable = "COHORT_DEVICES_VISIBLE";

void addDevicesVisible(CLI::App& command, std::string& devices);

// "0-3,8" of what is allowed; UsageErrors that name `source`.
std::vector<int> parseVisibleDevices(const std::string& text, const std::vector<int>& allowed,
                                     const std::string& source);

// Restricts this process, and all that it starts, to what the flag or the variable names. Before there are threads.
void showDevices(const std::string& flag);

}  // namespace cohort
