// For tests only: CIFAR's images and binary files with contents that can be recognised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/test_directory.h"
#include "data/cifar.h"

namespace cohort {

// Different for each image up to the 65,536th, each channel and each row.
inline std::vector<std::uint8_t> cifarPixels(int image) {
  std::vector<std::uint8_t> pixels(kCifarPixelBytes);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * 5 + i / 256 * 3 + static_cast<std::size_t>(image) * 7);
  }
  pixels[0] = static_cast<std::uint8_t>(image);
  pixels[1] = static_cast<std::uint8_t>(image / 256);
  return pixels;
}

// The images [first, first + count), the label of image i is i mod 10.
inline std::string cifar10File(int first, int count) {
  std::string file;
  for (int i = first; i < first + count; ++i) {
    const std::vector<std::uint8_t> pixels = cifarPixels(i);
    file.push_back(static_cast<char>(i % 10));
    file.append(pixels.begin(), pixels.end());
  }
  return file;
}

// Five batches of `batch` images each, numbered one after the other, and after them the test batch.
inline void writeCifar10(const std::filesystem::path& folder, int batch, int test) {
  for (int i = 0; i < 5; ++i) {
    writeTestFile(folder / ("data_batch_" + std::to_string(i + 1) + ".bin"), cifar10File(i * batch, batch));
  }
  writeTestFile(folder / "test_batch.bin", cifar10File(5 * batch, test));
}

}  // namespace cohort
