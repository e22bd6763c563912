#include "cli/exit_code.h"

#include "base/error.h"
#include "cli/run.h"

namespace cohort {

int exitCodeOf(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return kUsageError;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return kIoError;
  if (dynamic_cast<const PeerError*>(&error) != nullptr) return kPeerError;
  return kInternalError;
}

}  // namespace cohort
