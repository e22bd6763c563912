// Files that are written whole or not at all.
//
// The bytes go to a temporary file beside the target. `commit` makes them durable and then puts them in the
// target's place in one move, so that a reader, or the next run after a crash, sees the old file or the new
// one, never a part. A process that is killed before `commit` leaves its temporary file behind; its name
// contains kTemporaryMark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/descriptor.h"

namespace cohort {

inline constexpr std::string_view kTemporaryMark = ".tmp-";

// Used by one thread at a time, except that writeAt may be called by several for places that do not overlap.
// All failures are IoErrors that name the file and the system's reason.
class AtomicFile {
 public:
  // Creates the temporary file; the folder must exist. `mode` (less the umask) is the file's from the beginning.
  explicit AtomicFile(std::filesystem::path path, mode_t mode = 0666);
  // Without a commit, the temporary file is removed and the target stays as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends behind all that `write` has written before.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes at a place of its own; does not move the place where `write` goes on.
  void writeAt(std::uint64_t offset, std::span<const std::byte> bytes);
  // Where the bytes are until the commit; other processes may write to it too (base/file_part.h).
  const std::filesystem::path& temporary() const { return temporary_; }
  // Once: the target is now this file, on the disk.
  void commit();

 private:
  void syncDirectory() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Descriptor descriptor_;
  std::uint64_t end_ = 0;  // where `write` goes on
  bool committed_ = false;
};

// Or its first `most` bytes. Pipes and files that do not tell their size are read to their end.
std::string readWholeFile(const std::filesystem::path& path,
                          std::size_t most = std::numeric_limits<std::size_t>::max());
// The same of a file that is open, from where its next read begins; `path` is what errors name.
std::string readWholeFile(const Descriptor& file, const std::filesystem::path& path, std::size_t most);
// Replaces the file atomically.
void writeWholeFile(const std::filesystem::path& path, std::string_view text);

}  // namespace cohort
