// A dataset of one's own, with the whole command line of cohort: splits, transforms, normalisation, training.
//
//   custom_dataset train --network mnist-cnn --dataset csv --data-dir FOLDER
//
// FOLDER holds train.csv and, if you like, validation.csv and test.csv: a line per image, its label first and then the
// 0..255 of its pixels, row by row, of a square grey image ("5,0,0,12,255,…"). What has no file of its own can be cut off
// the training images with --validation-split and --test-split. docs/custom-datasets.md goes through this page.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <cohort.h>

namespace {

using namespace cohort;

// Everything is held in memory: reading an image is a copy.
class CsvImages : public ImageSet {
 public:
  explicit CsvImages(const std::filesystem::path& path) : path_(path.string()) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) addLine(line);
    if (labels_.empty()) throw IoError(path_ + " has no images; write a line for each.");
    side_ = static_cast<int>(std::lround(std::sqrt(images_[0].size())));
    if (static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_) != images_[0].size()) {
      throw IoError(path_ + ": the images are not square; check the number of columns.");
    }
    for (std::int32_t c = 0; c <= largest_; ++c) classNames_.push_back(std::to_string(c));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  SampleShape shape() const override { return {.channels = 1, .height = side_, .width = side_}; }
  const std::vector<std::string>& classNames() const override { return classNames_; }
  std::int32_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  std::string nameOf(std::int64_t index) const override { return "line " + std::to_string(index + 1); }
  void read(std::int64_t index, const ImageRequest&, Image& image) const override {
    image.reshape(shape());
    image.pixels = images_[static_cast<std::size_t>(index)];
  }

 private:
  void addLine(const std::string& line) {
    std::vector<std::uint8_t> values;
    const char* const last = line.data() + line.size();
    for (const char* at = line.data(); at < last;) {
      std::uint8_t value = 0;
      const auto [end, error] = std::from_chars(at, last, value);
      if (error != std::errc()) throw wrong("is not a list of numbers from 0 to 255");
      values.push_back(value);
      at = end < last ? end + 1 : last;  // over the comma
    }
    if (values.size() < 2) throw wrong("has no pixels");
    if (!images_.empty() && values.size() != images_[0].size() + 1)
      throw wrong("has another number of columns");
    labels_.push_back(values[0]);
    largest_ = std::max(largest_, labels_.back());
    images_.emplace_back(values.begin() + 1, values.end());
  }
  IoError wrong(const std::string& what) const {
    return IoError(path_ + ": line " + std::to_string(labels_.size() + 1) + " " + what + "; mend it.");
  }

  std::string path_;
  std::vector<std::int32_t> labels_;
  std::vector<std::vector<std::uint8_t>> images_;
  std::vector<std::string> classNames_;
  std::int32_t largest_ = 0;
  int side_ = 0;
};

std::unique_ptr<DataSource> openCsv(const DatasetOptions& options) {
  const auto open = [folder = options.directory](Split split) -> std::unique_ptr<ImageSet> {
    const char* names[] = {"train.csv", "validation.csv", "test.csv"};
    const std::filesystem::path path = folder / names[static_cast<int>(split)];
    if (!std::filesystem::exists(path)) return nullptr;  // this split has no file
    return std::make_unique<CsvImages>(path);
  };
  return imageSource({.name = "csv", .open = open}, options);
}

}  // namespace

int main(int argc, char** argv) {
  DatasetRegistry datasets = builtinDatasets();
  datasets.add({.name = "csv", .description = "square grey images, a line of numbers each", .open = openCsv});
  return run(argc, argv, builtinNetworks(), datasets);
}
