#include "study/child_process.h"

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
[[noreturn]] void becomeProgram(const char* program, char* const* arguments, int input, int output,
                                pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kCannotStart);  // it died before it could be asked for
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
      dup2(output, STDERR_FILENO) >= 0) {
    execv(program, arguments);
  }
  _exit(kCannotStart);
}

}  // namespace

ChildProcess::ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& output) {
  const Descriptor input = openFile("/dev/null", O_RDONLY);
  const Descriptor written = openFile(output, O_WRONLY | O_CREAT | O_APPEND);
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) becomeProgram(program.c_str(), pointers.data(), input.get(), written.get(), parent);
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

void ChildProcess::stop() {
  if (!exitCode_) ::kill(process_, SIGTERM);
}

}  // namespace cohort
