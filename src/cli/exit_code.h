// Which exit code a failure has. Private to cli.
#pragma once

#include <exception>

namespace cohort {

// kUsageError, kIoError, kPeerError as base/error.h has them; kInternalError for all else.
int exitCodeOf(const std::exception& error);

}  // namespace cohort
