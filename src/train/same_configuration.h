// That all workers were told the same. Private to train.
#pragma once

#include "comm/channel.h"
#include "train/run_config.h"

namespace cohort {

// The settings that all workers of a run have in common, as text that can be read again (config_file.h).
std::string sharedConfiguration(const RunConfig& config);
// UsageError, with the first difference, where a run's configuration is another.
void requireSharedConfiguration(const RunConfig& own, const std::string& shared);

// Settings that change the result must be the same everywhere: a difference would show only as a wrong sum. UsageError on all
// workers, with the first difference.
void requireSameConfiguration(const Channel& workers, const RunConfig& config);

}  // namespace cohort
