#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

namespace cohort {
namespace {

bool take(const Descriptor& file, Lock lock) {
  return ::flock(file.get(), (lock == Lock::Shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

}  // namespace

Descriptor tryLock(const std::filesystem::path& path, Lock lock) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file || take(file, lock)) return file;
  const int error = errno;
  file.close();
  errno = error;
  return file;
}

bool isLocked(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && !take(file, Lock::Exclusive);
}

}  // namespace cohort
