// Images in class folders:
//
//   place    := class… | splits
//   splits   := train/class… [ (validation | val)/class… ] [ test/class… ]
//   class    := CLASS/image…
//   image    := NAME.jpg | NAME.jpeg | NAME.png, in small letters or large
//
// Labels are the places of the class names in bytewise order; the images of a class are in bytewise order too. Hidden files
// and folders, and files with other endings, are ignored. A place is read as splits where it has a folder `train` that
// itself has class folders; without it all images are training images.
//
// A file is read when its image is: opening only lists names.
#pragma once

#include <filesystem>
#include <memory>

#include "data/image_set.h"

namespace cohort {

// Looks at names alone, stops at the first image; never throws.
bool isImageFolder(const std::filesystem::path& place);

// Nothing where there is no folder for the split. UsageError where a folder has no classes or a class no images, IoError
// where the splits have different classes or a folder cannot be listed.
std::unique_ptr<ImageSet> openImageFolder(const std::filesystem::path& place, Split split);

}  // namespace cohort
