#include "cli/setting_options.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "train/config_file.h"
#include "train/strategy_file.h"

namespace cohort {
namespace {

// Not shown in the help text.
constexpr const char* kHidden = "";

bool isWanted(std::string_view name, bool (*wanted)(const Setting&)) {
  bool found = false;
  const RunConfig any;
  visitSettings(
      any, [&](const Setting& setting, const auto&) { found |= name == setting.name && wanted(setting); });
  return found;
}

}  // namespace

void SettingOptions::addTo(CLI::App& command, bool (*wanted)(const Setting&)) {
  command
      .add_option_function<std::string>(
          "--config", [this](const std::string& file) { file_ = file; },
          "settings from a YAML file; flags win over it")
      ->type_name("FILE");
  command.add_option("-o", overrides_, "a setting by its name, over --config and flags; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  addSettings(command, wanted);
  if (isWanted("split", wanted)) addStrategyFile(command);
  addOlderNames(command, wanted);
}

void SettingOptions::addStrategyFile(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--strategy", [this](const std::string& file) { flags_[std::string(kStrategyFile)] = {file}; },
          "instead of --parallel: a YAML file of lines 'LAYER: model'")
      ->type_name("FILE")
      ->group("Workers");
}

void SettingOptions::addSettings(CLI::App& command, bool (*wanted)(const Setting&)) {
  RunConfig names;
  visitSettings(names, [&](const Setting& setting, auto& field) {
    if (!wanted(setting)) return;
    const std::string name = setting.name;
    if constexpr (std::is_same_v<decltype(field), bool&>) {
      const auto set = [this, name](bool value) { flags_[name] = {value ? "true" : "false"}; };
      command
          .add_flag_function(
              "--" + name, [set](std::int64_t count) { set(count > 0); }, setting.help)
          ->group(setting.group);
      command.add_flag_function("--no-" + name, [set](std::int64_t count) { set(count <= 0); })
          ->group(kHidden);  // told in the other's help
      return;
    }
    command
        .add_option_function<std::vector<std::string>>(
            "--" + name, [this, name](const std::vector<std::string>& values) { flags_[name] = values; },
            setting.help)
        ->type_name(setting.value)
        ->group(setting.group)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  });
}

// Where a command has all settings it takes all older names, otherwise those for the settings that it has.
void SettingOptions::addOlderNames(CLI::App& command, bool (*wanted)(const Setting&)) {
  const bool hasAll = isWanted("keep", wanted);
  for (const OlderName& row : olderNames()) {
    if (!hasAll && !isWanted(row.setting, wanted)) continue;
    const std::string name(row.name);
    command
        .add_option_function<std::vector<std::string>>(
            "--" + name,
            [this, name, isSwitch = row.isSwitch](std::vector<std::string> values) {
              if (isSwitch && (values.empty() || values.back().empty())) values = {"true"};  // a switch alone
              older_.push_back({name, std::move(values), "--" + name});
            })
        ->group(kHidden)
        ->expected(row.isSwitch ? 0 : 1, 1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::vector<GivenSettings> SettingOptions::layers(std::vector<std::string>& notes) const {
  std::vector<GivenSettings> layers;
  if (file_) layers.push_back(readConfigFile(*file_, &notes));
  layers.push_back(flags_);
  translateOlderNames(older_, layers.back(), notes);
  requireOneDivision(layers.back(), "");
  takeStrategyFile(layers.back());
  layers.push_back(settingsFromOverrides(overrides_, &notes));
  return layers;
}

std::vector<std::string> normalizedArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string& text = arguments.emplace_back(argv[i]);
    refuseRemotePath(text);
    if (!text.starts_with("--")) continue;
    const auto end = std::ranges::find(text, '=');
    std::replace(text.begin(), end, '_', '-');
  }
  // An older program's switch: every step is synchronous.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool isLast = i + 1 == arguments.size() || arguments[i + 1].starts_with("-");
    if (arguments[i] == "--sync" && isLast) arguments[i] += "=bsp";
  }
  return arguments;
}

}  // namespace cohort
