// CIFAR-10 and CIFAR-100 in their binary files: 60,000 colour images of 32x32 pixels.
//
//   file   := record*
//   record := label pixels            CIFAR-10: data_batch_1.bin to data_batch_5.bin, test_batch.bin
//           | coarse label pixels     CIFAR-100: train.bin, test.bin; the coarse label (20 classes) is not used
//   label, coarse := one byte
//   pixels := 3072 bytes, plain [3, 32, 32]
//
// The files are in the given folder, or in cifar-10-batches-bin or cifar-100-binary inside of it, where the archives put
// them. A split is held in memory as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/atomic_file.h"
#include "data/image_set.h"

namespace cohort {

inline constexpr SampleShape kCifarShape{.channels = 3, .height = 32, .width = 32};
inline constexpr std::size_t kCifarPixelBytes = 3072;
using CifarPixels = std::span<const std::uint8_t, kCifarPixelBytes>;

// By the files' names alone: one of them is enough.
bool isCifar10(const std::filesystem::path& place);
bool isCifar100(const std::filesystem::path& place);

// Nothing for Split::Validation: the formats have no such files. UsageError where a file of the split is missing; IoError
// where one is empty, ends inside a record or has a label that cannot be, or where a file of class names
// (batches.meta.txt, fine_label_names.txt; they need not exist) has not one name for each class.
std::unique_ptr<ImageSet> openCifar10(const std::filesystem::path& place, Split split);
std::unique_ptr<ImageSet> openCifar100(const std::filesystem::path& place, Split split);

// Writes one file of CIFAR-10. Used by one thread.
class Cifar10Writer {
 public:
  explicit Cifar10Writer(const std::filesystem::path& path);

  // The label is below 10.
  void write(CifarPixels pixels, std::int32_t label);
  // Once, at the end: before it, there is no file.
  void commit();

 private:
  AtomicFile file_;
  std::string buffer_;
};

}  // namespace cohort
