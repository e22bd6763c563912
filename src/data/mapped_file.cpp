#include "data/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace cohort {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throwFileError("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throwFileError("read", path, errno);
  if (!S_ISREG(status.st_mode)) throwFileError("read", path, S_ISDIR(status.st_mode) ? EISDIR : ENODEV);
  if (status.st_size == 0) return;  // nothing of length 0 can be mapped
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) throwFileError("read", path, errno);
  begin_ = static_cast<const char*>(mapped);
  size_ = size;
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
