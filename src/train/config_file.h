// Configurations as YAML: the files that --config takes and the config.yaml of a job directory; and the KEY=VALUE texts of
// -o, which name settings in the same way.
//
// Keys are the names of the flags, with - or _ ("batch-size: 128"), job-dir, and in files strategy; or older names (older_names.h). They
// may be nested where it reads better: a key inside maps is the setting that the keys put together name ("every" inside
// "checkpoint"), or the one that the inner keys name alone ("lr" inside "optimizer"); "name" inside "network", "dataset" or
// "optimizer" is that setting itself. Values are texts, numbers, switches, or lists where a setting takes several.
//
// Thread-safe; what is read is at most 1 MiB.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_config.h"

namespace cohort {

// Stands in GivenSettings beside the settings, for who opens the folder.
inline constexpr std::string_view kJobDirectory = "job-dir";

// UsageError with "SOURCE:LINE:COLUMN: " where the text is not YAML, a key is unknown (the nearest one is named) or given
// twice, or a value is none of its setting. What older names have to say goes to `notes`, where there are any. A strategy file
// (strategy_file.h) is only named.
GivenSettings settingsFromYaml(std::string_view text, const std::string& source,
                               std::vector<std::string>* notes = nullptr);
// With what its strategy file says.
GivenSettings readConfigFile(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

// Of "lr=0.1", "optimizer.lr=0.1", …: the last of a repeated one counts, lists keep all.
GivenSettings settingsFromOverrides(const std::vector<std::string>& texts,
                                    std::vector<std::string>* notes = nullptr);

// Every setting, grouped and in the order of the help text; settingsFromYaml gives the same configuration back.
std::string toYaml(const RunConfig& config);

}  // namespace cohort
