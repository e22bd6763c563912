#include "launch/child_process.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"

namespace cohort {
namespace {

constexpr int kCannotStart = 127;  // as shells have it

Descriptor openFile(const std::filesystem::path& path, int flags) {
  Descriptor opened(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!opened) throw IoError(fmt::format("cannot open {}: {}", path.string(), systemMessage(errno)));
  return opened;
}

// Between fork and exec: only what may be called there. posix_spawn has no way to ask for the parent's death.
[[noreturn]] void becomeProgram(const char* program, char* const* arguments, char* const* environment,
                                const ChildStreams& streams, pid_t parent, int deathSignal) {
  prctl(PR_SET_PDEATHSIG, deathSignal);
  if (getppid() != parent) _exit(kCannotStart);  // it died before it could be asked for
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(streams.input, STDIN_FILENO) >= 0 && dup2(streams.output, STDOUT_FILENO) >= 0 &&
      dup2(streams.error, STDERR_FILENO) >= 0) {
    execve(program, arguments, environment);
  }
  _exit(kCannotStart);
}

// As exec wants texts.
class Pointers {
 public:
  explicit Pointers(const std::vector<std::string>& texts) : copies_(texts) {
    for (std::string& copy : copies_) pointers_.push_back(copy.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> copies_;
  std::vector<char*> pointers_;
};

}  // namespace

ChildProcess::ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& output, const std::vector<std::string>& variables,
                           int deathSignal) {
  const Descriptor input = openFile("/dev/null", O_RDONLY);
  const Descriptor written = openFile(output, O_WRONLY | O_CREAT | O_APPEND);
  start(program, arguments, {.input = input.get(), .output = written.get(), .error = written.get()},
        variables, deathSignal);
}

ChildProcess::ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                           const ChildStreams& streams, const std::vector<std::string>& variables,
                           int deathSignal) {
  start(program, arguments, streams, variables, deathSignal);
}

void ChildProcess::start(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const ChildStreams& streams, const std::vector<std::string>& variables,
                         int deathSignal) {
  const Pointers argumentPointers(arguments);
  std::vector<std::string> all = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  const Pointers variablePointers(all);
  const pid_t parent = getpid();
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody is told how a child ended
  process_ = fork();
  if (process_ == 0)
    becomeProgram(program.c_str(), argumentPointers.get(), variablePointers.get(), streams, parent,
                  deathSignal);
  if (process_ < 0) throw IoError(fmt::format("cannot start a process: {}", systemMessage(errno)));
}

ChildProcess::~ChildProcess() {
  if (exitCode_) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> ChildProcess::exitCode() {
  if (exitCode_) return exitCode_;
  int status = 0;
  if (::waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  exitCode_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exitCode_;
}

void ChildProcess::signal(int number) {
  if (!exitCode_) ::kill(process_, number);
}

}  // namespace cohort
