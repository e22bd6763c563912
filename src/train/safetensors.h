// Named tensors in one file that any safetensors reader opens.
//
//   file     := length header payload
//   length   := 64 bits, least significant byte first: the header's size in bytes
//   header   := a JSON object in UTF-8, filled up with spaces so that the payload begins at a multiple of 8
//   object   := { "__metadata__": {string: string …}?, NAME: tensor … }, no name twice
//   tensor   := { "dtype": "F32" …, "shape": [extent …], "data_offsets": [begin, end] }, the offsets
//               counted from the payload's start
//   payload  := the tensors' values, row-major, least significant byte first, without gaps or overlaps
//
// The writer is atomic (see base/atomic_file.h). The reader checks all of the above before it gives anything,
// and treats what it reads as untrusted: a malformed file is an IoError that names it, never a crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace cohort {

// Strings by name, in the order of the names.
using TensorMetadata = std::map<std::string, std::string, std::less<>>;

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;  // as many as the shape's product
};

// A file's first bytes, length and header: behind them, F32 tensors lie in this order. Texts of equal lengths in the
// metadata make equally long headers. UsageError for names that the format cannot hold (not UTF-8).
std::string safetensorsHeader(std::span<const TensorShape> tensors, const TensorMetadata& metadata);

// Writes the tensors as F32 in the order given.
void writeSafetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                      const TensorMetadata& metadata);

// One tensor of a file.
struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32", "I64", …
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of its first byte in the file
  std::uint64_t bytes = 0;
};

// An open file. Immutable after construction: any number of threads may read.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const TensorMetadata& metadata() const { return metadata_; }
  // In the order of their places in the file.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  // nullptr where there is none.
  const StoredTensor* find(std::string_view name) const;
  // Fills `values` with the F32 tensor of this name; IoError where it is missing, of another type or another
  // size.
  void read(std::string_view name, std::span<float> values) const;
  // The same for the values from `first` on of a tensor that has `count`.
  void readPart(std::string_view name, std::size_t count, std::size_t first, std::span<float> values) const;

 private:
  void readAt(std::uint64_t offset, std::span<std::byte> bytes) const;
  std::string readHeader(std::uint64_t fileSize) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
  TensorMetadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> byName_;
};

}  // namespace cohort
