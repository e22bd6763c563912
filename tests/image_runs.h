// For tests only: training runs on small image files.
#pragma once

#include <filesystem>
#include <string>

#include "base/test_directory.h"
#include "data/image_codec.h"
#include "data/test_images.h"
#include "tests/training_runs.h"

namespace cohort {

// Three classes of images that differ in size, colour and format. The largest are decoded at a reduced scale.
inline void writeImages(const std::filesystem::path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const bool large = i % 4 == 3;
    const SampleShape shape{.channels = i % 7 == 0 ? 1 : 3,
                            .height = large ? 70 + i : 20 + i % 9,
                            .width = large ? 90 - i : 19 + i % 11};
    const int label = i % 3;
    const Image image = smoothImage(shape, 40 * label + i);
    const std::filesystem::path place = folder / std::string(1, static_cast<char>('a' + label));
    std::filesystem::create_directories(place);
    const std::string name = "image" + std::to_string(i);
    if (i % 5 < 3) {
      writeTestFile(place / (name + ".jpg"), jpegOf(image, {.progressive = i % 2 == 0}));
    } else {
      writeTestFile(place / (name + ".png"), encodePng(image));
    }
  }
}

// 41 images and batches of 12: epochs end inside batches.
inline void writeImageFolder(const std::filesystem::path& place) {
  writeImages(place / "train", 41);
  writeImages(place / "test", 10);
}

inline GivenSettings imageSettings(const std::string& network, const std::filesystem::path& data) {
  return {{"network", {network}},     {"dataset", {"folder"}},
          {"data-dir", {data}},       {"transforms", {"resize:18,random-crop:16,flip"}},
          {"batch-size", {"12"}},     {"grains", {"6"}},
          {"schedule", {"constant"}}, {"train-steps", {"8"}},
          {"threads", {"2"}}};
}

}  // namespace cohort
