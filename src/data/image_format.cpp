#include "data/image_format.h"

#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/idx_images.h"

namespace cohort {
namespace {

constexpr std::array kFormats = {
    ImageFormat{.name = "idx", .description = "IDX files (MNIST)", .recognises = isIdx, .open = openIdx},
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
