#include "launch/signal_queue.h"

#include <cerrno>
#include <csignal>

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {

SignalQueue::SignalQueue() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_) throw IoError(fmt::format("cannot listen to signals: {}", systemMessage(errno)));
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo signal{};
  if (::read(signals_.get(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
  return static_cast<int>(signal.ssi_signo);
}

}  // namespace cohort
