#include "data/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw IoError(fmt::format("Cannot open {}: {}.", path.string(), systemMessage(errno)));
  }
  struct stat status {};
  int error = ::fstat(descriptor, &status) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
  // Nothing of length 0 can be mapped.
  if (error == 0 && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      error = errno;
    } else {
      begin_ = static_cast<const char*>(mapped);
    }
  }
  ::close(descriptor);
  if (error != 0) throw IoError(fmt::format("Cannot read {}: {}.", path.string(), systemMessage(error)));
}

MappedFile::~MappedFile() {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes no pointer to const
  if (begin_ != nullptr) ::munmap(const_cast<char*>(begin_), size_);
}

void MappedFile::readAhead() const {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): madvise takes no pointer to const
  if (begin_ != nullptr) ::madvise(const_cast<char*>(begin_), size_, MADV_WILLNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace cohort
