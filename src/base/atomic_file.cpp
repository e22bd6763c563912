#include "base/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "base/error.h"
#include "base/file_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Different for each file that a process makes, and for the processes of one machine.
fs::path temporaryName(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  fs::path name = path;
  name += fmt::format("{}{}-{}", kTemporaryMark, ::getpid(), counter++);
  return name;
}

Descriptor createNew(const fs::path& path, mode_t mode) {
  Descriptor created;
  do {
    created = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  } while (!created && errno == EINTR);
  return created;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, mode_t mode) : path_(std::move(path)) {
  // A killed process of the same number may have left a file of this name: take the next one.
  do {
    temporary_ = temporaryName(path_);
    descriptor_ = createNew(temporary_, mode);
  } while (!descriptor_ && errno == EEXIST);
  if (!descriptor_) throwFileError("create", temporary_, errno);
}

AtomicFile::~AtomicFile() {
  descriptor_.close();
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  writeAt(end_, bytes);
  end_ += bytes.size();
}

void AtomicFile::writeAt(std::uint64_t offset, std::span<const std::byte> bytes) {
  COHORT_CHECK(descriptor_, "a write after the commit");
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throwFileError("write", temporary_, errno);
    if (written == 0) throwFileError("write", temporary_, ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::commit() {
  COHORT_CHECK(descriptor_, "a second commit");
  if (::fsync(descriptor_.get()) != 0) throwFileError("bring to the disk", temporary_, errno);
  crashPoint("synced" + path_.extension().string());
  // Some file systems tell only now that a write failed.
  if (const int error = descriptor_.close(); error != 0) throwFileError("close", temporary_, error);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throwFileError("replace", path_, errno);
  committed_ = true;
  crashPoint("renamed" + path_.extension().string());
  syncDirectory();
}

// Until the folder is on the disk too, a power cut could bring the old file back.
void AtomicFile::syncDirectory() const {
  const fs::path directory = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throwFileError("open the folder", directory, errno);
  // EINVAL: this file system has no such operation, and nothing is lost by it.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) throwFileError("bring to the disk", directory, errno);
}

std::string readWholeFile(const fs::path& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throwFileError("open", path, errno);
  return readWholeFile(file, path, most);
}

std::string readWholeFile(const Descriptor& file, const fs::path& path, std::size_t most) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throwFileError("read", path, errno);
  // The size is a first guess (files under /proc say 0): the end is where a read gives nothing.
  const auto guess = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  std::string contents(std::min(guess, most - 1) + 1, '\0');
  std::size_t size = 0;
  while (size < most) {
    if (size == contents.size()) contents.resize(std::min(2 * size, most));
    const ssize_t got = ::read(file.get(), contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throwFileError("read", path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  contents.resize(size);
  return contents;
}

void writeWholeFile(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace cohort
