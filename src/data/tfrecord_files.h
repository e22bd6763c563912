// Private to data. Which files belong to a set of TFRecord files, told by their names (data/tfrecord.h has the rules).
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "data/image_set.h"

namespace cohort {

// In the order of their names; none where no file belongs to the split. UsageError where nothing at `place` is such a file,
// or where a shard is missing.
std::vector<std::filesystem::path> tfrecordFiles(const std::filesystem::path& place, Split split);

// UsageError where the file is a gzip stream, as TensorFlow writes when asked to compress.
void requireNotCompressed(const std::filesystem::path& path, std::string_view contents);

}  // namespace cohort
