#include "train/job_directory.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_lock.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kWorkersLock = "workers.lock";
constexpr const char* kStatus = "status";
constexpr std::chrono::seconds kSurvivorsLimit{30};
constexpr int kLooks = 100;  // at a lock that others may only look at
constexpr int kLooksAtLeader = 10;

bool hasCheckpoints(const fs::path& jobDirectory) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(jobDirectory / "checkpoints", unreadable)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

}  // namespace

JobDirectory::JobDirectory(fs::path path, Role role) : path_(std::move(path)) {
  if (role == Role::Joined) {
    make();
  } else if (role != Role::Member) {
    lead();
  }
  if (role == Role::Supervisor) return;
  const fs::path lock = path_ / kWorkersLock;
  workersLock_ = tryLock(lock, Lock::Shared);
  // Somebody who only looks whether there are workers has it for a moment.
  for (int tries = 0; !workersLock_ && errno == EWOULDBLOCK && tries < kLooks; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    workersLock_ = tryLock(lock, Lock::Shared);
  }
  if (!workersLock_) {
    throw IoError(fmt::format("cannot lock {}: {}; the job directory must be one that all workers share",
                              lock.string(), systemMessage(errno)));
  }
}

void JobDirectory::make() const {
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  if (error)
    throw IoError(fmt::format("cannot make the job directory {}: {}", path_.string(), error.message()));
}

void JobDirectory::lead() {
  std::error_code unreadable;  // making it says why
  isNew_ = !fs::exists(path_, unreadable);
  make();
  lock_ = tryLock(path_ / "lock");
  // Somebody who only looks whether there is a leader has it for a moment.
  for (int tries = 0; !lock_ && errno == EWOULDBLOCK && tries < kLooksAtLeader; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lock_ = tryLock(path_ / "lock");
  }
  if (!lock_ && errno == EWOULDBLOCK) {
    throw UsageError(
        fmt::format("another run is using {}; wait for it, or give another --job-dir", path_.string()));
  }
  if (!lock_) {
    throw IoError(
        fmt::format("cannot write in the job directory {}: {}", path_.string(), systemMessage(errno)));
  }
  waitForWorkers();
  removeLeftovers();
}

bool JobDirectory::hasWorkers() const {
  return cohort::hasWorkers(path_);
}

bool hasWorkers(const fs::path& jobDirectory) {
  return isLocked(jobDirectory / kWorkersLock);
}

// Workers whose leader was killed end within seconds. UsageError where they stay.
void JobDirectory::waitForWorkers() const {
  const auto limit = std::chrono::steady_clock::now() + kSurvivorsLimit;
  while (hasWorkers()) {
    if (std::chrono::steady_clock::now() > limit) {
      throw UsageError(
          fmt::format("workers of an earlier run are still using {}; end them, or give another --job-dir",
                      path_.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void JobDirectory::removeLeftovers() const {
  std::error_code none;
  fs::remove_all(path_ / kStatus, none);  // of workers that were killed
  for (const fs::path& folder : {path_, checkpoints()}) {
    std::error_code ignored;  // they do no harm, they only take room
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename().string().find(kTemporaryMark) != std::string::npos) {
        fs::remove(entry.path(), ignored);
      }
    }
  }
}

JobDirectory::~JobDirectory() {
  std::error_code ignored;
  if (isNew_ && !fs::exists(path_ / kConfigFile, ignored)) {
    // Nothing was begun here. A folder in which somebody has put something stays.
    fs::remove_all(path_ / kStatus, ignored);
    for (const fs::path& made : {path_ / "lock", path_ / kWorkersLock, checkpoints(), path_})
      fs::remove(made, ignored);
  }
}

void JobDirectory::writeConfig(const std::string& yaml) const {
  writeWholeFile(path_ / kConfigFile, yaml);
}

void JobDirectory::writeSummary(const std::string& json) const {
  writeWholeFile(path_ / "summary.json", json);
}

void JobDirectory::writeLayers(const std::string& json) const {
  writeWholeFile(path_ / "layers.json", json);
}

std::optional<std::string> storedConfig(const fs::path& jobDirectory) {
  const fs::path path = jobDirectory / kConfigFile;
  std::error_code unreadable;  // whoever locks the folder says why
  if (fs::exists(path, unreadable)) return readWholeFile(path);
  if (hasCheckpoints(jobDirectory)) {
    throw UsageError(fmt::format("{} has checkpoints but no {}; put it back, or give another --job-dir",
                                 jobDirectory.string(), kConfigFile));
  }
  return std::nullopt;
}

fs::path newJobDirectory(const std::string& network) {
  const std::time_t now = std::time(nullptr);
  const std::string day = fmt::format("{:%Y%m%d}", fmt::localtime(now));
  for (int n = 1;; ++n) {
    fs::path path = fs::path("runs") / fmt::format("{}-{}-{}", network, day, n);
    std::error_code unreadable;  // whoever makes the folder says why
    if (!fs::exists(path, unreadable)) return path;
  }
}

}  // namespace cohort
