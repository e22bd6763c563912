// Reads IDX files, the format of the MNIST family, plain or gzipped.
//
//   file   := 0x00 0x00 type dimensions extent{dimensions} value*
//   type   := 0x08 (unsigned bytes; the only one used here)
//   extent := 32 bits, most significant byte first
//   value  := one byte each, the last extent running fastest; exactly as many as the extents' product
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cohort {

struct IdxArray {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> values;
};

// A file that begins with gzip's magic number is inflated. Whatever is malformed (another magic number or
// number of dimensions, too short, too long, a damaged gzip stream) is an IoError that names the file; memory
// is only taken for what the file can really hold.
IdxArray readIdx(const std::filesystem::path& path, int dimensions);

}  // namespace cohort
