// What is in a folder or file of images: for people who want to know before they train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace cohort {

struct SplitInfo {
  Split split = Split::Train;
  std::int64_t images = 0;
  std::vector<std::int64_t> perClass{};  // by label
  SampleShape smallest{};                // of all images: the smallest height and the smallest width
  SampleShape largest{};
};

struct ImagesInfo {
  std::string format;  // "CIFAR-10 binary files"
  std::vector<std::string> classNames;
  std::vector<SplitInfo> splits;  // those that have files
};

// Reads every image, so that a damaged one is found here and not after hours of training: IoError that names it.
ImagesInfo inspectImages(const std::filesystem::path& place);

}  // namespace cohort
