// From one format of image files to another: CIFAR's binary files to TFRecord files and back, and any other images of
// 32x32 pixels in colour to either.
//
// Order and bytes are kept, so that CIFAR-10's binary files come back from TFRecord files as they were: six files with five
// equal data batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace cohort {

enum class ConvertTarget {
  // train.tfrecords, validation.tfrecords, eval.tfrecords. Where the source has no images for validation, they are the last
  // 5,000 of 50,000 training images, and the last tenth of any other number; every tenth image where the source is ordered
  // by class. Class names are not kept.
  Tfrecord,
  // data_batch_1.bin to data_batch_5.bin (training images, then those for validation, in five equal parts; a remainder
  // goes to the first parts), test_batch.bin, and batches.meta.txt where the source has names for its ten classes.
  Binary,
};

struct ConvertedFile {
  std::filesystem::path path;
  std::int64_t images = 0;
};

struct ConvertReport {
  std::string source;                // "CIFAR-10 binary files"
  std::vector<ConvertedFile> files;  // those with images, in the order of their names above
};

// What is converted. Each split may be missing where the target needs no file of it.
struct ConvertSource {
  std::string place;  // for messages
  std::string description;
  std::unique_ptr<ImageSet> train;
  std::unique_ptr<ImageSet> validation;
  std::unique_ptr<ImageSet> test;
};

// Reads what is at `from` (any format of imageFormats()) and writes the target's files into the folder `to`, which is made
// where it does not exist. The files appear together at the end; none where something fails before. UsageError where a
// target file exists already, or where the images do not fit the target; IoError where they are damaged.
ConvertReport convertDataset(const std::filesystem::path& from, const std::filesystem::path& to,
                             ConvertTarget target);
ConvertReport convertDataset(const ConvertSource& source, const std::filesystem::path& to,
                             ConvertTarget target);

}  // namespace cohort
