// Labelled 8-bit images by index: what every reader of a format gives. Splitting, resizing, augmentation and normalisation
// are built on top of it, once for all formats (image_dataset.h).
//
// An ImageSet never changes after its construction: any number of threads may read from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/image_codec.h"

namespace cohort {

enum class Split { Train, Validation, Test };

class ImageSet {
 public:
  virtual ~ImageSet() = default;
  virtual std::int64_t size() const = 0;  // at least 1
  // The shape of every image; height and width are 0 where they differ.
  virtual SampleShape shape() const = 0;
  // One for each class, in the order of the labels ("0", "1", … where a format has no names).
  virtual const std::vector<std::string>& classNames() const = 0;
  // In [0, classNames().size()). Cheap.
  virtual std::int32_t label(std::int64_t index) const = 0;
  // What the image is called: for messages, and for splits by hash. Stays the same when the folder moves.
  virtual std::string nameOf(std::int64_t index) const = 0;
  // Files are ordered by class, so that "the last N" would be one class only.
  virtual bool orderedByClass() const { return false; }
  // Fills `image`. A set whose images have one shape may ignore the request. IoError where the image is damaged.
  virtual void read(std::int64_t index, const ImageRequest& request, Image& image) const = 0;
  // The image's file as it is stored (JPEG or PNG), so that it can be kept elsewhere without loss. False, for all images of
  // a set alike, where the set has pixels and no such files; `bytes` is then untouched.
  virtual bool encoded(std::int64_t /*index*/, std::string& /*bytes*/) const { return false; }
};

}  // namespace cohort
