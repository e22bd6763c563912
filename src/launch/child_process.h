// A program that runs beside this one: its own process, without a shell.
//
// Used by the thread that made it, and that thread must live as long as the child should: the kernel sends the child a signal
// when it ends, however it ends.
#pragma once

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace cohort {

// What a child reads and where it prints: descriptors of this process, which keeps them.
struct ChildStreams {
  int input = 0;
  int output = 1;
  int error = 2;
};

class ChildProcess {
 public:
  // Starts `program` with `arguments` (the first is its name). It reads nothing, what it prints is added to `output`, no
  // signal is blocked in it, and those of a terminal do not reach it: this process passes them on. Its environment has
  // `variables` ("NAME=VALUE") besides this process's. IoError where it cannot be started.
  ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
               const std::filesystem::path& output, const std::vector<std::string>& variables = {},
               int deathSignal = SIGTERM);
  // The same with other streams.
  ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
               const ChildStreams& streams, const std::vector<std::string>& variables, int deathSignal);
  // Ends it where it still runs, and waits for that.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Its exit code, or 128 + the signal that ended it; nothing while it runs. Returns at once.
  std::optional<int> exitCode();
  void signal(int number);

 private:
  void start(const std::filesystem::path& program, const std::vector<std::string>& arguments,
             const ChildStreams& streams, const std::vector<std::string>& variables, int deathSignal);

  pid_t process_ = -1;
  std::optional<int> exitCode_;
};

}  // namespace cohort
