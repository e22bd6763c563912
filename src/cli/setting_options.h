// The options of a command that sets up a run: --config, every setting as a flag, --strategy, older programs' names for them, -o.
// Private to cli.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "train/older_names.h"
#include "train/run_config.h"

namespace cohort {

// Lives as long as the command that it was added to.
class SettingOptions {
 public:
  // `wanted` chooses the settings that are flags here.
  void addTo(CLI::App& command, bool (*wanted)(const Setting&));

  // What the user gave, for resolveLayers: the file, then the flags, then -o. UsageError as they say.
  std::vector<GivenSettings> layers(std::vector<std::string>& notes) const;

  GivenSettings& flags() { return flags_; }

 private:
  void addSettings(CLI::App& command, bool (*wanted)(const Setting&));
  void addStrategyFile(CLI::App& command);
  void addOlderNames(CLI::App& command, bool (*wanted)(const Setting&));

  std::optional<std::string> file_;
  GivenSettings flags_;
  std::vector<OlderSetting> older_;
  std::vector<std::string> overrides_;
};

// --batch_size is --batch-size. UsageError where an argument names a place in a cloud.
std::vector<std::string> normalizedArguments(int argc, const char* const* argv);

}  // namespace cohort
