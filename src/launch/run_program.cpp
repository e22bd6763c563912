#include "launch/run_program.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "launch/child_process.h"
#include "launch/mpirun.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string endOf(const std::string& text) {
  constexpr std::size_t kTail = 500;
  return text.substr(text.size() - std::min(text.size(), kTail));
}

// What a worker had to say, which mpirun surrounds with words of its own.
std::string sentenceIn(const std::string& text) {
  constexpr std::string_view kSaid = "cohort: ";
  const std::size_t line = text.starts_with(kSaid) ? 0 : text.find(fmt::format("\n{}", kSaid));
  if (line == std::string::npos) return endOf(text);
  const std::size_t begin = text.find(kSaid, line) + kSaid.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Its exit code.
int runToEnd(const fs::path& program, const std::vector<std::string>& arguments, const fs::path& log,
             const std::atomic<bool>& stop) {
  ChildProcess child(program, arguments, log);
  bool told = false;
  std::optional<int> code;
  while (!(code = child.exitCode())) {
    if (stop && !std::exchange(told, true)) child.signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (stop) throw UsageError("stopped by a signal");
  return *code;
}

IoError failure(const std::vector<std::string>& words, const std::string& lastWords) {
  return IoError(fmt::format("'{}' failed:\n{}", fmt::join(words, " "), lastWords));
}

}  // namespace

fs::path ownProgram() {
  return fs::read_symlink("/proc/self/exe");
}

void runProgram(const std::vector<std::string>& words, const fs::path& log, const std::atomic<bool>& stop) {
  if (runToEnd(ownProgram(), words, log, stop) != 0) throw failure(words, endOf(readWholeFile(log)));
}

void runWorkers(int workers, const std::vector<std::string>& words, const fs::path& log,
                const std::atomic<bool>& stop) {
  const fs::path mpirun = findMpirun();
  std::vector<std::string> command = words;
  command.front() = ownProgram().string();
  const int code = runToEnd(mpirun, mpirunArguments(mpirun, workers, command), log, stop);
  if (code != 0) throw failure(words, sentenceIn(readWholeFile(log)));
}

}  // namespace cohort
