#include "cli/shared_directory.h"

#include <chrono>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/host.h"

namespace cohort {
namespace {

// In place: others hold locks on this very file.
void writeTestimony(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
    throw IoError(fmt::format("cannot write {}", path.string()));
  }
}

}  // namespace

void requireSharedDirectory(const Channel& channel, const std::filesystem::path& directory) {
  if (channel.workers().size() == 1) return;
  const std::filesystem::path file = directory / "workers.lock";
  const std::string token =
      fmt::format("{} {}\n", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  if (channel.workers().isFirst()) writeTestimony(file, token);
  const std::string mark = channel.broadcast(token, "the job directory's mark");
  if (readWholeFile(file) == mark) return;
  throw UsageError(fmt::format(
      "the job directory {} of worker {} on {} is not the one of worker 0; give one that all share",
      directory.string(), channel.workers().rank(), hostName()));
}

}  // namespace cohort
