#include "cli/signals.h"

#include <atomic>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "launch/center_supervisor.h"
#include "report/console.h"

namespace cohort {
namespace {

StopFlag stopRequested = false;
StopFlag leaveRequested = false;
std::atomic<bool> isPatient = false;

void waitForSignals(sigset_t signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == kLeaveSignal) {
      leaveRequested = true;
      continue;
    }
    // Nobody is impatient by SIGUSR1: it comes from batch systems and hooks, which may do the same at the same time.
    if (stopRequested.exchange(true) && !isPatient && signal != SIGUSR1) {
      endLiveLine();
      _exit(128 + signal);
    }
  }
}

}  // namespace

void ignoreFurtherSignals() {
  isPatient = true;
}

const StopFlag& leaveWhenAsked() {
  ignoreFurtherSignals();
  stopOnSignals();
  return leaveRequested;
}

const StopFlag& stopOnSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  if (isPatient) sigaddset(&signals, kLeaveSignal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Lives as long as the process; it holds nothing that would have to be given back.
  static const bool started = [&] {
    std::thread(waitForSignals, signals).detach();
    return true;
  }();
  static_cast<void>(started);
  return stopRequested;
}

}  // namespace cohort
