#include "launch/run_program.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "launch/child_process.h"

namespace cohort {

void runProgram(const std::vector<std::string>& words, const std::filesystem::path& log,
                const std::atomic<bool>& stop) {
  ChildProcess child(std::filesystem::read_symlink("/proc/self/exe"), words, log);
  bool told = false;
  std::optional<int> code;
  while (!(code = child.exitCode())) {
    if (stop && !std::exchange(told, true)) child.signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (stop) throw UsageError("stopped by a signal");
  if (*code == 0) return;
  constexpr std::size_t kTail = 500;
  const std::string text = readWholeFile(log);
  throw IoError(fmt::format("'{}' failed:\n{}", fmt::join(words, " "),
                            text.substr(text.size() - std::min(text.size(), kTail))));
}

}  // namespace cohort
