#include "cli/signals.h"

#include <csignal>

#include <unistd.h>

namespace cohort {
namespace {

StopFlag stopRequested = false;
static_assert(StopFlag::is_always_lock_free, "a signal handler may set it");

void onSignal(int signal) {
  if (stopRequested.exchange(true)) _exit(128 + signal);
}

}  // namespace

const StopFlag& stopOnSignals() {
  struct sigaction action {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return stopRequested;
}

}  // namespace cohort
