// What the decoders of JPEG and PNG share. Private to data.
//
// Both libraries report errors by longjmp. The rule in both decoders: a function that calls setjmp, and all that runs
// between it and the library, has no object with a destructor; exceptions are thrown after the jump has landed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "data/image.h"
#include "data/image_codec.h"

namespace cohort {

// IoError: NAME WHAT; remove or replace it.
[[noreturn]] void refuseImage(const std::string& name, std::string_view what);

// Refuses what is above the limits in image_codec.h, or is empty.
void requireSaneSize(std::uint32_t height, std::uint32_t width, const std::string& name);

// The library's own words, cut to a fixed room: written while no allocation is allowed.
struct CodecMessage {
  static constexpr std::size_t kRoom = 256;
  char text[kRoom] = {};

  void set(const char* words) {
    std::strncpy(text, words, kRoom - 1);
    text[kRoom - 1] = '\0';
  }
};

// Brightness as in JPEG's own colour space (ITU-R BT.601), so that grey means the same in both formats.
inline std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

// Puts one row of interleaved pixels (`stored` channels, 1 or 3) into row y of the image, converted to its channels.
void storeRow(const std::uint8_t* row, int stored, int y, Image& image);

void decodeJpeg(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
                Image& image);
SampleShape jpegShape(std::span<const std::byte> file, const std::string& name);

void decodePng(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
               Image& image);
SampleShape pngShape(std::span<const std::byte> file, const std::string& name);

}  // namespace cohort
