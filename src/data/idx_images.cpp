#include "data/idx_images.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "data/idx_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10;

class IdxImages final : public ImageSet {
 public:
  IdxImages(SampleShape shape, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels)
      : shape_(shape), pixels_(std::move(pixels)), labels_(std::move(labels)) {
    for (int i = 0; i < kClasses; ++i) classNames_.push_back(std::to_string(i));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  SampleShape shape() const override { return shape_; }
  const std::vector<std::string>& classNames() const override { return classNames_; }
  std::int32_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  std::string nameOf(std::int64_t index) const override { return std::to_string(index); }
  void read(std::int64_t index, const ImageRequest&, Image& image) const override {
    COHORT_CHECK(index >= 0 && index < size(), "no such image");
    image.reshape(shape_);
    const auto first = pixels_.begin() + index * static_cast<std::ptrdiff_t>(shape_.count());
    std::copy_n(first, shape_.count(), image.pixels.begin());
  }

 private:
  SampleShape shape_;
  std::vector<std::uint8_t> pixels_;  // [samples, height, width]
  std::vector<std::uint8_t> labels_;  // [samples]
  std::vector<std::string> classNames_;
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

void requireLabels(const fs::path& path, std::span<const std::uint8_t> labels) {
  const auto wrong = std::ranges::find_if(labels, [](std::uint8_t label) { return label >= kClasses; });
  if (wrong == labels.end()) return;
  throw IoError(fmt::format("{}: the label of sample {} is {}, but labels go from 0 to {}.", path.string(),
                            wrong - labels.begin(), *wrong, kClasses - 1));
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

bool isIdx(const fs::path& place) {
  std::error_code ignored;
  return fs::is_regular_file(place / "train-images-idx3-ubyte", ignored) ||
         fs::is_regular_file(place / "train-images-idx3-ubyte.gz", ignored);
}

std::unique_ptr<ImageSet> openIdx(const fs::path& place, Split split) {
  if (split == Split::Validation) return nullptr;
  const std::string prefix = split == Split::Train ? "train" : "t10k";
  const fs::path imagePath = findFile(place, prefix + "-images-idx3-ubyte");
  const fs::path labelPath = findFile(place, prefix + "-labels-idx1-ubyte");
  IdxArray labels = readIdx(labelPath, 1);
  requireLabels(labelPath, labels.values);
  IdxArray images = readIdx(imagePath, 3);
  const SampleShape shape = imageShape(imagePath, images);
  if (images.extents[0] != labels.extents[0]) {
    throw IoError(fmt::format("{} has {} images, but {} has {} labels; they do not belong together.",
                              imagePath.string(), images.extents[0], labelPath.string(), labels.extents[0]));
  }
  return std::make_unique<IdxImages>(shape, std::move(images.values), std::move(labels.values));
}

}  // namespace cohort
