#include "data/inspect.h"

#include <algorithm>

#include "data/image_format.h"

namespace cohort {
namespace {

SplitInfo inspectSplit(const ImageSet& images, Split split) {
  SplitInfo info{.split = split, .images = images.size()};
  info.perClass.resize(images.classNames().size());
  Image image;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    images.read(i, {.channels = images.shape().channels}, image);
    ++info.perClass[static_cast<std::size_t>(images.label(i))];
    if (i == 0) info.smallest = info.largest = image.shape;
    info.smallest.height = std::min(info.smallest.height, image.shape.height);
    info.smallest.width = std::min(info.smallest.width, image.shape.width);
    info.largest.height = std::max(info.largest.height, image.shape.height);
    info.largest.width = std::max(info.largest.width, image.shape.width);
  }
  return info;
}

}  // namespace

ImagesInfo inspectImages(const std::filesystem::path& place) {
  const ImageFormat& format = recogniseImages(place);
  ImagesInfo info{.format = std::string(format.description), .classNames = {}, .splits = {}};
  for (const Split split : {Split::Train, Split::Validation, Split::Test}) {
    const auto images = format.open(place, split);
    if (!images) continue;
    if (images->classNames().size() > info.classNames.size()) info.classNames = images->classNames();
    info.splits.push_back(inspectSplit(*images, split));
  }
  return info;
}

}  // namespace cohort
