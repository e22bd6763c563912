#include "fetch/output_file.h"

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, int error) {
  throw IoError(fmt::format("Cannot {} {}: {}.", what, path.string(), systemMessage(error)));
}

// A folder's files are many: their file system is told once.
void bringToDisk(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("open", path, errno);
  std::error_code ignored;
  const int result = fs::is_directory(path, ignored) ? ::syncfs(descriptor) : ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) fail("bring to the disk", path, error);
}

}  // namespace

OutputFile::OutputFile(fs::path path, Mode mode) : path_(std::move(path)) {
  const int flags = mode == Mode::New ? O_TRUNC : 0;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (descriptor_ < 0) fail("write", path_, errno);
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (end < 0) {
    const int error = errno;
    ::close(descriptor_);
    fail("write", path_, error);
  }
  size_ = static_cast<std::uint64_t>(end);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    if (written == 0) fail("write", path_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0) fail("write", path_, errno);
  size_ = 0;
}

void OutputFile::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("write", path_, errno);
}

void moveIntoPlace(const fs::path& from, const fs::path& to) {
  bringToDisk(from);
  if (::rename(from.c_str(), to.c_str()) != 0) fail("create", to, errno);
}

}  // namespace cohort
