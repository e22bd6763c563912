// A file that grows at its end. Every failure is an IoError with the file's name. Private to fetch.
//
// Not base/atomic_file.h: what a killed process leaves here must be there under the same name for the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/descriptor.h"

namespace cohort {

// Used by one thread.
class OutputFile {
 public:
  enum class Mode { New, Append };

  OutputFile(std::filesystem::path path, Mode mode);

  void write(std::span<const std::byte> bytes);
  // Back to nothing.
  void clear();
  std::uint64_t size() const { return size_; }
  // Without it, what the system tells only then is lost.
  void close();

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

// Puts a finished file or folder in its place in one move, after all of it has come to the disk. A file replaces what was
// there.
void moveIntoPlace(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace cohort
