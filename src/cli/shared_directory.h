// Whether a run's folder is one. Private to cli.
#pragma once

#include <filesystem>

#include "comm/channel.h"

namespace cohort {

// By all workers, which name the same folder. UsageError where it is not the first worker's: folders of one name on several machines
// would each get a part of every checkpoint.
void requireSharedDirectory(const Channel& channel, const std::filesystem::path& directory);

}  // namespace cohort
