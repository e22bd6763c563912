#include "fetch/staging.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file_lock.h"

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = "lock";

[[noreturn]] void failToWrite(const fs::path& directory, const std::string& reason) {
  throw IoError(fmt::format("Cannot write in the folder {}: {}.", directory.string(), reason));
}

}  // namespace

Staging::Staging(fs::path directory) : directory_(std::move(directory)), folder_(directory_ / ".fetch") {
  std::error_code error;
  madeDirectory_ = !fs::exists(directory_, error);
  // Whoever is about to finish here may take the folder away between two of these lines.
  do {
    fs::create_directories(folder_, error);
    if (error) failToWrite(directory_, error.message());
  } while (!lock());
  removeAllBut(true);
}

// False: the lock was taken away with its folder while we waited for it.
bool Staging::lock() {
  const fs::path path = folder_ / kLock;
  Descriptor taken = tryLock(path);
  if (!taken && errno == ENOENT) return false;
  if (!taken && errno == EWOULDBLOCK) {
    throw UsageError(fmt::format("Another process is fetching into {}; wait for it, or give another --to.",
                                 directory_.string()));
  }
  if (!taken) failToWrite(directory_, systemMessage(errno));
  struct stat held {};
  struct stat named {};
  if (::fstat(taken.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0 || held.st_ino != named.st_ino)
    return false;
  lock_ = std::move(taken);
  return true;
}

void Staging::removeAllBut(bool parts) const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
    const fs::path name = entry.path().filename();
    if (name != kLock && !(parts && name.extension() == ".part")) fs::remove_all(entry.path(), ignored);
  }
}

Staging::~Staging() {
  removeAllBut(true);
  std::error_code ignored;
  bool empty = true;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
    std::error_code unknown;
    if (entry.path().filename() == kLock) continue;
    if (fs::file_size(entry.path(), unknown) == 0) {
      fs::remove(entry.path(), unknown);
    } else {
      empty = false;
    }
  }
  if (empty) {
    fs::remove(folder_ / kLock, ignored);
    fs::remove(folder_, ignored);
    if (madeDirectory_) fs::remove(directory_, ignored);
  }
}

fs::path Staging::makeFolder(const std::string& name) const {
  fs::path path = folder_ / name;
  std::error_code error;
  fs::create_directory(path, error);
  if (error) failToWrite(folder_, error.message());
  return path;
}

void Staging::finish() {
  removeAllBut(false);
}

}  // namespace cohort
