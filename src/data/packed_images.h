// All images of a set in one file, each as its own file had it: one file to copy, no million files to open, and the same
// bits for training as from where the images came. The grammar stands in packed_file.h.
//
// A packed file is mapped into memory, not read: opening takes no longer than its index needs, and processes that train from
// one file share its pages. As long as it is open it may be replaced (packImages does so in one move) but not cut.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "data/image_set.h"

namespace cohort {

// Told after each image.
using PackProgress = std::function<void(std::int64_t done, std::int64_t all)>;

// Writes what `open` gives for each split (nothing: no such split) to `path`. Images are taken as they are stored; those of
// sets that have only pixels become PNG images. One image at a time is in memory. UsageError where there is no split at
// all or the splits have different classes, IoError where an image is no image or a file fails.
void packImages(const std::function<std::unique_ptr<ImageSet>(Split)>& open,
                const std::filesystem::path& path, const PackProgress& progress = {});

// Looks at the first bytes; never throws.
bool isPackedImages(const std::filesystem::path& path);

// Names, labels, order and shape are those of the set that was packed. Nothing where the split has no images. IoError where
// the file is damaged: the index is checked now, an image when it is read.
std::unique_ptr<ImageSet> openPackedImages(const std::filesystem::path& path, Split split);

// Reads the whole file; IoError that names the first damaged image.
void verifyPackedImages(const std::filesystem::path& path);

}  // namespace cohort
