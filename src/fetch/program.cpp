#include "fetch/program.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "fetch/failure.h"

namespace cohort {
namespace {

constexpr std::size_t kKeptOutput = 600;  // characters for the message

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

Pipe makePipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw IoError(fmt::format("Cannot open a pipe: {}.", systemMessage(errno)));
  }
  return {.reading = Descriptor(ends[0]), .writing = Descriptor(ends[1])};
}

// To the end, that is until no process has the other end; the last `most` bytes.
std::string readAll(const Pipe& pipe, std::size_t most) {
  std::string text;
  std::array<char, 4096> chunk{};
  while (true) {
    const ssize_t got = ::read(pipe.reading.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > most) text.erase(0, text.size() - most);
  }
}

// In the child, where only what is safe in a signal handler may be called: another thread may hold any lock.
[[noreturn]] void becomeProgram(char* const* arguments, const char* folder, int output, int failure,
                                pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it ended before the line above
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      ::dup2(output, STDERR_FILENO) >= 0 && ::chdir(folder) == 0) {
    ::execvp(arguments[0], arguments);
  }
  const int error = errno;
  const ssize_t written = ::write(failure, &error, sizeof error);
  ::_exit(written == sizeof error ? 126 : 127);
}

// One line, without what programs repeat at its beginning.
std::string squeezed(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space && static_cast<unsigned char>(c) < 0x20) continue;
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

int waitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw IoError(fmt::format("Cannot wait for another program: {}.", systemMessage(errno)));
    }
  }
  return status;
}

}  // namespace

void runProgram(const std::vector<std::string>& command, const std::filesystem::path& folder) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  // exec does not write through them, but its oldest interface says it might.
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  Pipe output = makePipe();
  Pipe failure = makePipe();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw IoError(fmt::format("Cannot start {}: {}.", command[0], systemMessage(errno)));
  }
  if (child == 0)
    becomeProgram(arguments.data(), folder.c_str(), output.writing.get(), failure.writing.get(), parent);
  output.writing.close();
  failure.writing.close();
  const std::string said = squeezed(readAll(output, kKeptOutput));
  const std::string error = readAll(failure, sizeof(int));
  const int status = waitFor(child);
  if (error.size() == sizeof(int)) {
    int number = 0;
    error.copy(reinterpret_cast<char*>(&number), sizeof number);
    throw Unavailable(fmt::format("{} cannot be started: {}", command[0], systemMessage(number)));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string how = WIFEXITED(status) ? fmt::format("failed with exit code {}", WEXITSTATUS(status))
                                            : fmt::format("was ended by signal {}", WTERMSIG(status));
  throw Unavailable(fmt::format("{} {}{}{}", command[0], how, said.empty() ? "" : ": ", said));
}

}  // namespace cohort
