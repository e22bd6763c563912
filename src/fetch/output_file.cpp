#include "fetch/output_file.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// A folder's files are many: their file system is told once.
void bringToDisk(const fs::path& path) {
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) throwFileError("open", path, errno);
  std::error_code ignored;
  const int result = fs::is_directory(path, ignored) ? ::syncfs(opened.get()) : ::fsync(opened.get());
  if (result != 0) throwFileError("bring to the disk", path, errno);
}

}  // namespace

OutputFile::OutputFile(fs::path path, Mode mode) : path_(std::move(path)) {
  const int flags = mode == Mode::New ? O_TRUNC : 0;
  descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666));
  if (!descriptor_) throwFileError("write", path_, errno);
  const off_t end = ::lseek(descriptor_.get(), 0, SEEK_END);
  if (end < 0) throwFileError("write", path_, errno);
  size_ = static_cast<std::uint64_t>(end);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throwFileError("write", path_, errno);
    if (written == 0) throwFileError("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::clear() {
  if (::ftruncate(descriptor_.get(), 0) != 0 || ::lseek(descriptor_.get(), 0, SEEK_SET) != 0)
    throwFileError("write", path_, errno);
  size_ = 0;
}

void OutputFile::close() {
  if (const int error = descriptor_.close(); error != 0) throwFileError("write", path_, error);
}

void moveIntoPlace(const fs::path& from, const fs::path& to) {
  bringToDisk(from);
  if (::rename(from.c_str(), to.c_str()) != 0) throwFileError("create", to, errno);
}

}  // namespace cohort
