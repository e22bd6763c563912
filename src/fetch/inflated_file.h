// Reads a file from its beginning to its end, inflated where it is gzipped, a buffer at a time. Private to fetch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <zlib.h>

#include "base/descriptor.h"

namespace cohort {

// Used by one thread.
class InflatedFile {
 public:
  enum class Mode { AsItIs, InflateGzip };

  // With InflateGzip a file that begins with gzip's magic number is inflated, and any other is read as it is.
  InflatedFile(const std::filesystem::path& path, Mode mode);
  ~InflatedFile();
  InflatedFile(const InflatedFile&) = delete;
  InflatedFile& operator=(const InflatedFile&) = delete;

  // Fills `out` as far as there are bytes; returns how many there were. Damaged (a clause) where the stream is wrong, cut
  // off, or followed by something else; IoError where the file cannot be read.
  std::size_t read(std::span<std::byte> out);

 private:
  std::size_t readRaw(std::span<std::byte> out);
  void refill();
  std::size_t inflateInto(std::span<std::byte> out);

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::vector<std::byte> raw_;  // what has been read from the disk
  std::size_t rawAt_ = 0;       // how much of it is used
  std::size_t rawSize_ = 0;
  bool gzip_ = false;
  bool ended_ = false;
  z_stream state_{};
};

}  // namespace cohort
