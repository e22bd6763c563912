// Configurations as YAML: the files that --config takes and the config.yaml of a job directory.
//
// Keys are the names of the flags, with - or _ ("batch-size: 128"), nested where it reads better: a map's key and its
// inner key are put together where that is a setting ("schedule" inside "optimizer" is found by its own name). Values are
// texts, numbers, booleans, or lists where a setting takes several.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "train/run_config.h"

namespace cohort {

// UsageError with "SOURCE:LINE:COLUMN" where the text is not YAML, a key is unknown (the nearest one is named) or a value
// has the wrong type.
GivenSettings settingsFromYaml(std::string_view text, const std::string& source);
GivenSettings readConfigFile(const std::filesystem::path& path);

// Every setting, grouped and in the order of the help text; readConfigFile gives the same configuration back.
std::string toYaml(const RunConfig& config);

}  // namespace cohort
