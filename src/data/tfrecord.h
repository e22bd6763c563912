// Labelled images in TFRecord files (base/record_file.h), each record a tf.train.Example, and a writer of such files.
//
// A place is one file, all of it for training, or a folder of *.tfrecord, *.tfrecords and shards (train-00000-of-00010).
// In a folder, the beginning of a file's name tells its split: validation, val or dev; eval or test; all others are for
// training. The files of a split follow each other in the order of their names, and the shards must be complete.
//
// A record has these features, the first of each row that is there:
//
//   image, image/encoded, image_raw   bytes: a JPEG, a PNG, or pixels as they are
//   label, image/class/label          one whole number from 0 on, given as int64 or float
//   image/height, height              of pixels as they are; a JPEG or PNG knows its own
//   image/width, width
//   depth, image/channels             1 or 3; where it is missing, what the number of bytes says
//   image/filename, id                the image's name; else it is "train.tfrecord:17", counted from 0
//   image/class/text                  the name of the label's class; else it is the label
//
// Pixels with a height and a width are interleaved [height, width, depth], as TensorFlow's arrays are; 3072 bytes without
// them are CIFAR's plain [3, 32, 32].
//
// ImageSet::encoded gives a JPEG or PNG as it is. Pixels beside such files, or of different shapes, it gives as PNG, which
// loses nothing; where all images are pixels of one shape it gives nothing.
//
// Files are mapped, and read once when they are opened: every checksum and every label is checked then. What stays in
// memory is where each image is. The number of classes is the split's highest label + 1, and at least 10 where an image has
// CIFAR's 3072 bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/atomic_file.h"
#include "data/cifar.h"
#include "data/image_set.h"

namespace cohort {

// By names alone.
bool isTfrecords(const std::filesystem::path& place);

// Nothing where no file belongs to the split. UsageError where there are no such files at all, a shard is missing or a file
// is compressed as a whole; IoError that names the file and the record (counted from 0) for what is damaged or cannot be
// used.
std::unique_ptr<ImageSet> openTfrecords(const std::filesystem::path& place, Split split);

// Writes CIFAR's images as generate_cifar10_tfrecords.py does: the features `image` (plain [3, 32, 32] bytes) and `label`.
// Used by one thread.
class TfrecordWriter {
 public:
  explicit TfrecordWriter(const std::filesystem::path& path);

  // The label is not negative.
  void write(CifarPixels pixels, std::int32_t label);
  // Once, at the end: before it, there is no file.
  void commit();

 private:
  AtomicFile file_;
  std::string buffer_;
};

}  // namespace cohort
