// MNIST and its drop-in successors: grey images and ten classes, in IDX files. A split is held in memory as bytes.
#pragma once

#include <filesystem>
#include <memory>

#include "data/image_set.h"

namespace cohort {

// A folder with train-images-idx3-ubyte, as it is or with .gz behind its name.
bool isIdx(const std::filesystem::path& place);
// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-… for the test split; there is no validation split), as
// they are or with .gz behind their names.
std::unique_ptr<ImageSet> openIdx(const std::filesystem::path& place, Split split);

}  // namespace cohort
