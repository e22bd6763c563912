#include "base/crash_point.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace cohort {
namespace {

struct Workers {
  std::atomic<int> first = 0;
  std::atomic<int> count = 1;
};

Workers& own() {
  static Workers workers;
  return workers;
}

int numberIn(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// What a variable of the environment says. Read once: later changes of it mean nothing.
class Fault {
 public:
  explicit Fault(const char* variable) {
    const char* place = std::getenv(variable);
    const char* rank = std::getenv("COHORT_CRASH_WORKER");
    if (place == nullptr) return;
    const std::string_view text = place;
    const std::size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    if (colon != std::string_view::npos) time_ = numberIn(text.substr(colon + 1), 1);
    if (rank != nullptr) worker_ = numberIn(rank, -1);
  }

  // Whether it happens here and now.
  bool isDue(std::string_view name) {
    if (name_.empty() || name_ != name) return false;
    const int place = worker_ - own().first;
    if (worker_ >= 0 && (place < 0 || place >= own().count)) return false;
    return ++times_ == time_;
  }

 private:
  std::string name_;
  int time_ = 1;
  int worker_ = -1;  // any
  std::atomic<int> times_ = 0;
};

}  // namespace

void setCrashWorker(int first, int count) {
  own().first = first;
  own().count = count;
}

void crashPoint(std::string_view name) {
  static Fault crash("COHORT_CRASH_AT");
  if (crash.isDue(name)) std::raise(SIGKILL);
}

bool lossPoint(std::string_view name) {
  static Fault loss("COHORT_LOSE_AT");
  return loss.isDue(name);
}

}  // namespace cohort
