#include "base/crash_point.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace cohort {
namespace {

std::atomic<int>& worker() {
  static std::atomic<int> rank = 0;
  return rank;
}

int numberIn(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Read once: later changes of the environment mean nothing.
struct Crash {
  std::string name;
  int time = 1;
  int worker = -1;  // any

  Crash() {
    const char* place = std::getenv("COHORT_CRASH_AT");
    const char* rank = std::getenv("COHORT_CRASH_WORKER");
    if (place == nullptr) return;
    const std::string_view text = place;
    const std::size_t colon = text.find(':');
    name = text.substr(0, colon);
    if (colon != std::string_view::npos) time = numberIn(text.substr(colon + 1), 1);
    if (rank != nullptr) worker = numberIn(rank, -1);
  }
};

}  // namespace

void setCrashWorker(int rank) {
  worker() = rank;
}

void crashPoint(std::string_view name) {
  static const Crash crash;
  static std::atomic<int> times = 0;
  if (crash.name.empty() || crash.name != name) return;
  if (crash.worker >= 0 && crash.worker != worker()) return;
  if (++times == crash.time) std::raise(SIGKILL);
}

}  // namespace cohort
