// Compressed images: JPEG (libjpeg-turbo) and PNG (libpng), told apart by their first bytes.
//
// Thread-safe: each thread keeps decoders of its own, and decoding allocates only where an image is larger than all before
// it. Whatever is malformed is an IoError that begins with `name`; no size that a file announces is believed before it is
// found sane (at most 2^15 pixels a side, 2^26 in all).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace cohort {

// What the reader needs. An image may come out smaller than stored, as long as it is not smaller than this in either
// direction: a JPEG is then decoded at a reduced scale, which is much cheaper.
struct ImageRequest {
  int channels = 3;  // 1 or 3; what is stored is converted
  int height = 0;    // 0: the whole image at its full size
  int width = 0;
};

bool isJpeg(std::span<const std::byte> file);
bool isPng(std::span<const std::byte> file);

void decodeImage(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
                 Image& image);
// From the header alone; channels as stored (alpha not counted).
SampleShape encodedShape(std::span<const std::byte> file, const std::string& name);

std::string encodePng(const Image& image);

}  // namespace cohort
