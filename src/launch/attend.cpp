#include "launch/attend.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "launch/child_process.h"
#include "launch/find_program.h"
#include "launch/signal_queue.h"

namespace cohort {
namespace {

constexpr int kLookMilliseconds = 50;

// The words from the other end.
class Listener {
 public:
  // Does what they say. False when nobody is there any more.
  bool hear(ChildProcess& child) {
    std::array<char, 4096> part{};
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    heard_ = Clock::now();
    unread_.append(part.data(), static_cast<std::size_t>(got));
    for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
      const std::string word = unread_.substr(0, end + 1);
      unread_.erase(0, end + 1);
      if (word == kStopWord) child.signal(SIGTERM);
      if (word == kEndWord) return false;
    }
    return unread_.size() < part.size();  // such a line is nobody's word
  }

  bool isSilent() const { return secondsSince(heard_) > kSilentSeconds; }

 private:
  std::string unread_;
  Clock::time_point heard_ = Clock::now();
};

}  // namespace

int attend(const std::vector<std::string>& command) {
  const std::optional<std::filesystem::path> program = findProgram(command.front());
  if (!program) {
    throw UsageError(fmt::format("{} is no program that can be run here; give another", command.front()));
  }
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) throw IoError(fmt::format("cannot open /dev/null: {}", systemMessage(errno)));
  SignalQueue signals;
  ChildProcess child(*program, command,
                     {.input = nothing.get(), .output = STDOUT_FILENO, .error = STDERR_FILENO}, {}, SIGKILL);
  Listener listener;
  for (;;) {
    if (const std::optional<int> code = child.exitCode()) return *code;
    std::array<pollfd, 2> ready = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                    {.fd = signals.descriptor(), .events = POLLIN, .revents = 0}}};
    ::poll(ready.data(), ready.size(), kLookMilliseconds);
    while (const std::optional<int> signal = signals.next()) child.signal(*signal);
    const bool isThere = ready[0].revents == 0 || listener.hear(child);
    if (isThere && !listener.isSilent()) continue;
    child.signal(SIGKILL);
    return 128 + SIGKILL;  // the child's end is waited for with it
  }
}

}  // namespace cohort
