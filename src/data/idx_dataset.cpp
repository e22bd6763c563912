#include "data/idx_dataset.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/idx_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSets = {
    IdxSet{.name = "fashion-mnist",
           .mean = 0.2860f,
           .standardDeviation = 0.3530f,
           .packageDirectory = "/usr/share/datasets/fashion-mnist",
           .package = "dataset-fashion-mnist"},
    IdxSet{.name = "mnist",
           .mean = 0.1307f,
           .standardDeviation = 0.3081f,
           .packageDirectory = {},
           .package = {}},
};

fs::path findFile(const fs::path& directory, const std::string& name) {
  std::error_code ignored;
  for (const fs::path& candidate : {directory / name, directory / (name + ".gz")}) {
    if (fs::is_regular_file(candidate, ignored)) return candidate;
  }
  throw UsageError(
      fmt::format("There is neither {0} nor {0}.gz in {1}; put it there or name another data folder.", name,
                  directory.string()));
}

void requireLabels(const fs::path& path, std::span<const std::uint8_t> labels, int classes) {
  const auto wrong = std::ranges::find_if(labels, [&](std::uint8_t label) { return label >= classes; });
  if (wrong == labels.end()) return;
  throw IoError(fmt::format("{}: the label of sample {} is {}, but labels go from 0 to {}.", path.string(),
                            wrong - labels.begin(), *wrong, classes - 1));
}

SampleShape imageShape(const fs::path& path, const IdxArray& images) {
  constexpr std::uint32_t kLargest = 1u << 15;
  const auto [count, height, width] = std::array{images.extents[0], images.extents[1], images.extents[2]};
  if (count == 0 || height == 0 || width == 0 || height > kLargest || width > kLargest) {
    throw IoError(fmt::format("{} announces {} images of {}x{} pixels, which cannot be trained on.",
                              path.string(), count, height, width));
  }
  return {.channels = 1, .height = static_cast<int>(height), .width = static_cast<int>(width)};
}

}  // namespace

std::span<const IdxSet> idxSets() {
  return kSets;
}

fs::path findIdxDirectory(const IdxSet& set, const fs::path& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (fs::is_directory(given, ignored)) return given;
    throw UsageError(
        fmt::format("The data folder {} does not exist; name the folder that holds the files of {}.",
                    given.string(), set.name));
  }
  fs::path local = fs::path("data") / set.name;
  if (fs::is_directory(local, ignored)) return local;
  if (set.package.empty()) {
    throw UsageError(
        fmt::format("The files of {0} are not in {1}; put its four IDX files there or name the folder "
                    "that holds them.",
                    set.name, local.string()));
  }
  if (fs::is_directory(set.packageDirectory, ignored)) return set.packageDirectory;
  throw UsageError(
      fmt::format("The files of {} are neither in {} nor in {}; install the package {} or name the folder "
                  "that holds them.",
                  set.name, local.string(), set.packageDirectory, set.package));
}

IdxDataset::IdxDataset(const IdxSet& set, const fs::path& directory, Split split)
    : name_(set.name),
      scale_(1.0f / (255.0f * set.standardDeviation)),
      offset_(-set.mean / set.standardDeviation) {
  const std::string prefix = split == Split::Train ? "train" : "t10k";
  const fs::path imagePath = findFile(directory, prefix + "-images-idx3-ubyte");
  const fs::path labelPath = findFile(directory, prefix + "-labels-idx1-ubyte");
  IdxArray labels = readIdx(labelPath, 1);
  requireLabels(labelPath, labels.values, kClasses);
  IdxArray images = readIdx(imagePath, 3);
  shape_ = imageShape(imagePath, images);
  if (images.extents[0] != labels.extents[0]) {
    throw IoError(fmt::format("{} has {} images, but {} has {} labels; they do not belong together.",
                              imagePath.string(), images.extents[0], labelPath.string(), labels.extents[0]));
  }
  pixels_ = std::move(images.values);
  labels_ = std::move(labels.values);
}

std::int32_t IdxDataset::read(std::int64_t index, std::span<float> pixels) const {
  const std::size_t count = shape_.count();
  COHORT_CHECK(index >= 0 && index < size() && pixels.size() == count, "no such sample, or no room for it");
  const std::uint8_t* source = pixels_.data() + static_cast<std::size_t>(index) * count;
  float* const out = pixels.data();
  const float scale = scale_;
  const float offset = offset_;
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(source[i]) * scale + offset;
  return labels_[static_cast<std::size_t>(index)];
}

}  // namespace cohort
