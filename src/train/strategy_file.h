// A strategy file says of each layer how workers divide it:
//
//   conv1: data          # a layer's name, or a regular expression that its whole name fits
//   "conv[2-5]": data
//   fc.*: model          # the first that fits counts; a layer that none fits is split by data
//
// A run keeps what the file says, as split rules, not the file.
// Thread-safe; what is read is at most 1 MiB.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_config.h"

namespace cohort {

// Stands in GivenSettings beside the settings, until takeStrategyFile.
inline constexpr std::string_view kStrategyFile = "strategy";

// Values of the setting split, in the file's order. UsageError with "SOURCE:LINE:COLUMN: " where the text is not such a map, or a
// layer stands in it twice.
std::vector<std::string> splitsFromYaml(std::string_view text, const std::string& source);

// Replaces the name of a layer's strategy file, where it has one, by what the file says.
void takeStrategyFile(GivenSettings& layer);

// UsageError, with `place` before it, where one layer says in two ways how the network is divided.
void requireOneDivision(const GivenSettings& layer, const std::string& place);

}  // namespace cohort
