// For tests only: images with contents that can be recognised, and JPEG files of every kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "data/image.h"

namespace cohort {

// Smooth in both directions and different in each channel, so that JPEG keeps it nearly as it is; `phase` tells images
// apart.
inline Image smoothImage(SampleShape shape, int phase = 0) {
  Image image;
  image.reshape(shape);
  std::size_t at = 0;
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) {
        const int down = 120 * y / shape.height;
        const int across = 120 * x / shape.width;
        const int value = c == 0 ? down + across : c == 1 ? down + 120 - across : 120 - down + across;
        image.pixels[at++] = static_cast<std::uint8_t>((value + phase) % 256);
      }
    }
  }
  return image;
}

struct JpegOptions {
  int quality = 95;
  bool progressive = false;
  bool arithmetic = false;             // coded so instead of by Huffman's codes
  bool halfColour = true;              // 4:2:0, as cameras write it
  bool adobeMark = true;               // of Adobe's programs, in files of four inks
  J_COLOR_SPACE stored = JCS_UNKNOWN;  // JCS_UNKNOWN: what is usual for the channels
};

// Rows of interleaved pixels -> a JPEG file.
inline std::string jpegOfRows(std::vector<std::uint8_t> rows, SampleShape shape, J_COLOR_SPACE space,
                              const JpegOptions& options = {}) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* file = nullptr;
  unsigned long size = 0;  // NOLINT: the library's type
  jpeg_mem_dest(&encoder, &file, &size);
  encoder.image_width = static_cast<JDIMENSION>(shape.width);
  encoder.image_height = static_cast<JDIMENSION>(shape.height);
  encoder.input_components = shape.channels;
  encoder.in_color_space = space;
  jpeg_set_defaults(&encoder);
  if (options.stored != JCS_UNKNOWN) jpeg_set_colorspace(&encoder, options.stored);
  jpeg_set_quality(&encoder, options.quality, TRUE);
  if (!options.halfColour) encoder.comp_info[0].h_samp_factor = encoder.comp_info[0].v_samp_factor = 1;
  if (options.arithmetic) encoder.arith_code = TRUE;
  if (options.progressive) jpeg_simple_progression(&encoder);
  if (!options.adobeMark) encoder.write_Adobe_marker = FALSE;
  jpeg_start_compress(&encoder, TRUE);
  const auto rowBytes = static_cast<std::size_t>(shape.width) * static_cast<std::size_t>(shape.channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(shape.height); ++y) {
    JSAMPROW row = rows.data() + y * rowBytes;
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string result(reinterpret_cast<const char*>(file), size);
  jpeg_destroy_compress(&encoder);
  std::free(file);
  return result;
}

inline std::string jpegOf(const Image& image, const JpegOptions& options = {}) {
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::size_t plane = image.pixels.size() / channels;
  std::vector<std::uint8_t> rows(image.pixels.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = image.pixels[i % channels * plane + i / channels];
  return jpegOfRows(std::move(rows), image.shape, channels == 1 ? JCS_GRAYSCALE : JCS_RGB, options);
}

inline void flipBit(std::string& file, std::size_t at, unsigned bit) {
  file[at] = static_cast<char>(static_cast<unsigned char>(file[at]) ^ (1u << bit));
}

inline int largestDifference(const Image& a, const Image& b) {
  if (a.shape != b.shape) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return largest;
}

}  // namespace cohort
