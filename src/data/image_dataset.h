// A dataset made of images: files of any format, split, transformed and normalised. This is what a new format has to
// provide no more than an ImageSet for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/normalization.h"

namespace cohort {

// A split's files; nothing where there are none for it.
using OpenImages = std::function<std::unique_ptr<ImageSet>(Split)>;

struct ImageDatasetOptions {
  std::string name;  // for messages
  OpenImages open;
  // Of the whole training set, where it is known: spares measuring it.
  std::optional<ChannelStatistics> known{};
};

// The splits of such a dataset.
std::unique_ptr<DataSource> imageSource(ImageDatasetOptions images, DatasetOptions options);

}  // namespace cohort
