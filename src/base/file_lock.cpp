#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

namespace cohort {
namespace {

bool lock(const Descriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

Descriptor tryLock(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file || lock(file)) return file;
  const int error = errno;
  file.close();
  errno = error;
  return file;
}

bool isLocked(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && !lock(file);
}

}  // namespace cohort
