#include "data/image_format.h"

#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/cifar.h"
#include "data/idx_images.h"
#include "data/image_folder.h"
#include "data/packed_images.h"
#include "data/tfrecord.h"

namespace cohort {
namespace {

constexpr std::array kFormats = {
    ImageFormat{.name = "packed",
                .description = "a file of packed images",
                .recognises = isPackedImages,
                .open = openPackedImages},
    ImageFormat{.name = "idx", .description = "IDX files (MNIST)", .recognises = isIdx, .open = openIdx},
    ImageFormat{.name = "cifar10",
                .description = "CIFAR-10 binary files",
                .recognises = isCifar10,
                .open = openCifar10},
    ImageFormat{.name = "cifar100",
                .description = "CIFAR-100 binary files",
                .recognises = isCifar100,
                .open = openCifar100},
    ImageFormat{.name = "tfrecord",
                .description = "TFRecord files of images",
                .recognises = isTfrecords,
                .open = openTfrecords},
    ImageFormat{.name = "folder",
                .description = "JPEG and PNG files in class folders",
                .recognises = isImageFolder,
                .open = openImageFolder},
};

}  // namespace

std::span<const ImageFormat> imageFormats() {
  return kFormats;
}

const ImageFormat& recogniseImages(const std::filesystem::path& place) {
  for (const ImageFormat& format : kFormats) {
    if (format.recognises(place)) return format;
  }
  std::string known;
  for (const ImageFormat& format : kFormats) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format.description);
  }
  throw UsageError(fmt::format("{} holds no images in a format that is known ({}).", place.string(), known));
}

}  // namespace cohort
