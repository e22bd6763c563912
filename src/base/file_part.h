// A file that several processes fill, each its own places. All failures are IoErrors that name the file and the system's
// reason. Thread-safe for places that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/descriptor.h"

namespace cohort {

// All of `bytes`, from an open file at `path`; IoError where it ends before.
void readFileAt(const Descriptor& file, const std::filesystem::path& path, std::uint64_t offset,
                std::span<std::byte> bytes);

class FilePart {
 public:
  // Opens a file that exists.
  explicit FilePart(std::filesystem::path path);

  void writeAt(std::uint64_t offset, std::span<const std::byte> bytes);
  void readAt(std::uint64_t offset, std::span<std::byte> bytes) const;
  // What this process has written is then on the disk.
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace cohort
