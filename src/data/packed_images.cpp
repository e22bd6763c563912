#include "data/packed_images.h"

#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/packed_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

class PackedImages final : public ImageSet {
 public:
  PackedImages(std::unique_ptr<const PackedFile> file, Split split)
      : file_(std::move(file)), split_(file_->split(split)), first_(file_->first(split)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(split_.images); }
  SampleShape shape() const override { return split_.shape; }
  const std::vector<std::string>& classNames() const override { return file_->classNames(); }
  std::int32_t label(std::int64_t index) const override { return file_->label(place(index)); }
  std::string nameOf(std::int64_t index) const override { return std::string(file_->name(place(index))); }
  bool orderedByClass() const override { return split_.orderedByClass; }

  void read(std::int64_t index, const ImageRequest& request, Image& image) const override {
    thread_local std::string name;
    name.assign(file_->path()).append(": ").append(file_->name(place(index)));
    // A set of pixels gave them as they are, whatever was asked for; so does this one.
    const ImageRequest asStored{.channels = split_.shape.channels};
    decodeImage(file_->image(place(index)), name, split_.pixelsOnly ? asStored : request, image);
    if (split_.pixelsOnly && split_.shape.height != 0 && image.shape != split_.shape) {
      throw IoError(fmt::format("{} has {}x{} pixels, not {}x{} as all others; pack the images again.", name,
                                image.shape.height, image.shape.width, split_.shape.height,
                                split_.shape.width));
    }
  }
  bool encoded(std::int64_t index, std::string& bytes) const override {
    if (split_.pixelsOnly) return false;
    const auto image = file_->image(place(index));
    bytes.assign(reinterpret_cast<const char*>(image.data()), image.size());
    return true;
  }

 private:
  std::uint64_t place(std::int64_t index) const { return first_ + static_cast<std::uint64_t>(index); }

  std::unique_ptr<const PackedFile> file_;
  PackedSplit split_;
  std::uint64_t first_;
};

using Sets = std::array<std::unique_ptr<ImageSet>, kSplits.size()>;

// Those that exist; at least one, all with the same classes.
Sets openSets(const std::function<std::unique_ptr<ImageSet>(Split)>& open, const fs::path& path) {
  Sets sets;
  const ImageSet* any = nullptr;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    sets[i] = open(kSplits[i]);
    if (sets[i] == nullptr) continue;
    if (any != nullptr && sets[i]->classNames() != any->classNames()) {
      throw UsageError(fmt::format(
          "Cannot pack {}: the splits have different classes; give all of them the same.", path.string()));
    }
    any = sets[i].get();
  }
  if (any == nullptr) throw UsageError(fmt::format("Cannot pack {}: there are no images.", path.string()));
  return sets;
}

// The image's file, or a PNG image of its pixels.
void encode(const ImageSet& set, std::int64_t index, bool pixelsOnly, Image& pixels, std::string& file) {
  if (pixelsOnly) {
    set.read(index, {.channels = set.shape().channels}, pixels);
    file = encodePng(pixels);
    return;
  }
  COHORT_CHECK(set.encoded(index, file), "all images of a set have files, or none");
  encodedShape(std::as_bytes(std::span(file)), set.nameOf(index));  // refuses what is no image
}

}  // namespace

void packImages(const std::function<std::unique_ptr<ImageSet>(Split)>& open, const fs::path& path,
                const PackProgress& progress) {
  const Sets sets = openSets(open, path);
  std::int64_t all = 0;
  std::vector<std::string> classNames;
  for (const auto& set : sets) {
    if (set == nullptr) continue;
    all += set->size();
    classNames = set->classNames();
  }

  PackedFileWriter writer(path, std::move(classNames));
  std::int64_t done = 0;
  std::string file;
  Image pixels;
  for (const auto& set : sets) {
    PackedSplit split;
    if (set != nullptr) {
      split = {.orderedByClass = set->orderedByClass(),
               .pixelsOnly = !set->encoded(0, file),
               .shape = set->shape()};
    }
    writer.beginSplit(split);
    for (std::int64_t i = 0; set != nullptr && i < set->size(); ++i) {
      encode(*set, i, split.pixelsOnly, pixels, file);
      writer.add(file, set->label(i), set->nameOf(i));
      if (progress) progress(++done, all);
    }
  }
  writer.finish();
}

bool isPackedImages(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, kPackedMagic.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return file && std::string_view(begin.data(), begin.size()) == kPackedMagic;
}

std::unique_ptr<ImageSet> openPackedImages(const fs::path& path, Split split) {
  auto file = std::make_unique<const PackedFile>(path);
  if (file->split(split).images == 0) return nullptr;
  return std::make_unique<PackedImages>(std::move(file), split);
}

void verifyPackedImages(const fs::path& path) {
  const PackedFile file(path);
  for (std::uint64_t i = 0; i < file.images(); ++i) file.image(i);
}

}  // namespace cohort
