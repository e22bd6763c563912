// The options of `cohort train`, for its own command line and for others that start it. Private to cli.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/setting_options.h"

namespace cohort {

// Lives as long as the command that it was added to.
class TrainOptions {
 public:
  void addTo(CLI::App& command);
  // Before they are parsed: all words after the program's name, and when the process began.
  void start(std::vector<std::string> words, std::chrono::steady_clock::time_point processStart);
  // After. UsageError as the settings say.
  const TrainArguments& arguments();

 private:
  SettingOptions settings_;
  TrainArguments arguments_;
};

// "train" and its options, as another command was given them, with the same sentences where they are wrong.
TrainArguments parseTrainWords(const std::vector<std::string>& words);

}  // namespace cohort
