#include "cli/exit_code.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "cli/run.h"

namespace cohort {

int exitCodeOf(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return kUsageError;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return kIoError;
  if (dynamic_cast<const PeerError*>(&error) != nullptr) return kPeerError;
  return kInternalError;
}

void letFirstSpeak(int rank, int code) {
  if (rank > 0 && (code == kUsageError || code == kPeerError))
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

void letOthersSpeak(int code) {
  if (code == kPeerError) std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

}  // namespace cohort
