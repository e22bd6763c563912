#include "data/image_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "data/codec_parts.h"

namespace cohort {
namespace {

bool beginsWith(std::span<const std::byte> file, std::span<const unsigned char> signature) {
  return file.size() >= signature.size() && std::memcmp(file.data(), signature.data(), signature.size()) == 0;
}

}  // namespace

void refuseImage(const std::string& name, std::string_view what) {
  throw IoError(fmt::format("{} {}; remove or replace it.", name, what));
}

void requireSaneSize(std::uint32_t height, std::uint32_t width, const std::string& name) {
  constexpr std::uint32_t kLongestSide = 1u << 15;
  constexpr std::uint64_t kMostPixels = 1u << 26;
  if (height == 0 || width == 0) refuseImage(name, fmt::format("has no pixels ({}x{})", height, width));
  if (height > kLongestSide || width > kLongestSide || std::uint64_t{height} * width > kMostPixels) {
    refuseImage(name, fmt::format("announces {}x{} pixels, more than is believed ({} a side, {} in all)",
                                  height, width, kLongestSide, kMostPixels));
  }
}

void storeRow(const std::uint8_t* row, int stored, int y, Image& image) {
  const auto width = static_cast<std::size_t>(image.shape.width);
  const std::size_t plane = static_cast<std::size_t>(image.shape.height) * width;
  std::uint8_t* const out = image.pixels.data() + static_cast<std::size_t>(y) * width;
  if (stored == 1) {
    for (int channel = 0; channel < image.shape.channels; ++channel) {
      std::memcpy(out + static_cast<std::size_t>(channel) * plane, row, width);
    }
  } else if (image.shape.channels == 1) {
    for (std::size_t x = 0; x < width; ++x) out[x] = luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
  } else {
    std::uint8_t* const green = out + plane;
    std::uint8_t* const blue = green + plane;
    for (std::size_t x = 0; x < width; ++x) {
      out[x] = row[3 * x];
      green[x] = row[3 * x + 1];
      blue[x] = row[3 * x + 2];
    }
  }
}

bool isJpeg(std::span<const std::byte> file) {
  constexpr std::array<unsigned char, 3> kSignature{0xff, 0xd8, 0xff};
  return beginsWith(file, kSignature);
}

bool isPng(std::span<const std::byte> file) {
  constexpr std::array<unsigned char, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return beginsWith(file, kSignature);
}

void decodeImage(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
                 Image& image) {
  COHORT_CHECK(request.channels == 1 || request.channels == 3, "images have 1 or 3 channels");
  if (isJpeg(file)) return decodeJpeg(file, name, request, image);
  if (isPng(file)) return decodePng(file, name, request, image);
  refuseImage(name, "is neither a JPEG nor a PNG image");
}

SampleShape encodedShape(std::span<const std::byte> file, const std::string& name) {
  if (isJpeg(file)) return jpegShape(file, name);
  if (isPng(file)) return pngShape(file, name);
  refuseImage(name, "is neither a JPEG nor a PNG image");
}

}  // namespace cohort
