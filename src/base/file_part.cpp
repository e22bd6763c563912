#include "base/file_part.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/file_error.h"

namespace cohort {
void readFileAt(const Descriptor& file, const std::filesystem::path& path, std::uint64_t offset,
                std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throwFileError("read", path, errno);
    if (got == 0) throw IoError(fmt::format("{} became shorter while it was read.", path.string()));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

FilePart::FilePart(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)) {
  if (!file_) throwFileError("open", path_, errno);
}

void FilePart::writeAt(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throwFileError("write", path_, errno);
    if (written == 0) throwFileError("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void FilePart::readAt(std::uint64_t offset, std::span<std::byte> bytes) const {
  readFileAt(file_, path_, offset, bytes);
}

void FilePart::sync() {
  if (::fsync(file_.get()) != 0) throwFileError("bring to the disk", path_, errno);
}

}  // namespace cohort
