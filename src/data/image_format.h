// The formats of image files, in the order in which a place is looked at. A new format of ours is one row here.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "data/image_set.h"

namespace cohort {

struct ImageFormat {
  std::string_view name;         // "cifar10"
  std::string_view description;  // "CIFAR-10 binary files"
  bool (*recognises)(
      const std::filesystem::path& place);  // looks at names and first bytes alone; never throws
  // Nothing where the format has no files for this split. UsageError or IoError where they cannot be read.
  std::unique_ptr<ImageSet> (*open)(const std::filesystem::path& place, Split split);
};

std::span<const ImageFormat> imageFormats();
// The format of what is at `place` (a folder or a file); UsageError that says what was looked for where there is none.
const ImageFormat& recogniseImages(const std::filesystem::path& place);

}  // namespace cohort
