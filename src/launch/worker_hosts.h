// Where workers are, in sentences about them.
#pragma once

#include <string>
#include <vector>

#include "launch/worker_cores.h"

namespace cohort {

// "worker 0 waited for worker 2" -> "worker 0 on h1 waited for worker 2 on h3", where workers are on several hosts; otherwise as
// it is.
std::string withHosts(const std::string& sentence, const std::vector<WorkerCores>& workers);

}  // namespace cohort
