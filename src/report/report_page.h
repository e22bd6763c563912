// A report of one or more runs as one HTML page that needs nothing else: no other file, no network. It is complete without
// scripts; a small one adds values under the pointer and hides runs on demand. The same records give the same bytes.
#pragma once

#include <span>
#include <string>

#include "report/run_records.h"

namespace cohort {

// At least one run.
std::string reportPage(std::span<const RunRecords> runs);

}  // namespace cohort
