#include "data/cifar.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

static_assert(kCifarShape.channels * kCifarShape.height * kCifarShape.width == int{kCifarPixelBytes});

constexpr std::array<std::string_view, 10> kCifar10Names = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
constexpr std::array<std::string_view, 5> kCifar10Train = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> kCifar10Test = {"test_batch.bin"};
constexpr std::array<std::string_view, 1> kCifar100Train = {"train.bin"};
constexpr std::array<std::string_view, 1> kCifar100Test = {"test.bin"};

// Each of `labels` is one byte of a record: how many values it may have. The last is the one that is learnt.
struct Format {
  std::string_view name;
  std::string_view folder;  // that the archive makes
  std::span<const std::string_view> train;
  std::span<const std::string_view> test;
  std::string_view nameFile;
  std::span<const int> labels;

  int classes() const { return labels.back(); }
  std::size_t recordBytes() const { return labels.size() + kCifarPixelBytes; }
};

constexpr std::array<int, 1> kCifar10Labels = {10};
constexpr std::array<int, 2> kCifar100Labels = {20, 100};

constexpr Format kCifar10{.name = "CIFAR-10",
                          .folder = "cifar-10-batches-bin",
                          .train = kCifar10Train,
                          .test = kCifar10Test,
                          .nameFile = "batches.meta.txt",
                          .labels = kCifar10Labels};
constexpr Format kCifar100{.name = "CIFAR-100",
                           .folder = "cifar-100-binary",
                           .train = kCifar100Train,
                           .test = kCifar100Test,
                           .nameFile = "fine_label_names.txt",
                           .labels = kCifar100Labels};

bool isFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool hasFiles(const Format& format, const fs::path& folder) {
  const auto isHere = [&](std::string_view name) { return isFile(folder / name); };
  return std::ranges::any_of(format.train, isHere) || std::ranges::any_of(format.test, isHere);
}

bool isFormat(const Format& format, const fs::path& place) {
  return hasFiles(format, place) || hasFiles(format, place / format.folder);
}

std::vector<std::string> defaultNames(const Format& format) {
  if (format.classes() == static_cast<int>(kCifar10Names.size())) {
    return {kCifar10Names.begin(), kCifar10Names.end()};
  }
  std::vector<std::string> names(static_cast<std::size_t>(format.classes()));
  for (std::size_t label = 0; label < names.size(); ++label) names[label] = std::to_string(label);
  return names;
}

// One name a line; the files end with empty lines.
std::vector<std::string> readNames(const Format& format, const fs::path& folder) {
  const fs::path path = folder / format.nameFile;
  if (!isFile(path)) return defaultNames(format);
  const std::string text = readWholeFile(path);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(std::move(line));
    begin = end + 1;
  }
  if (std::ssize(names) != format.classes()) {
    throw IoError(fmt::format("{} names {} classes, but {} has {}.", path.string(), names.size(), format.name,
                              format.classes()));
  }
  return names;
}

void requireRecords(const Format& format, const fs::path& path, std::string_view contents) {
  const std::size_t recordBytes = format.recordBytes();
  if (contents.empty() || contents.size() % recordBytes != 0) {
    throw IoError(fmt::format("{} has {} bytes, but {} files have {} for each image; it is not whole.",
                              path.string(), contents.size(), format.name, recordBytes));
  }
  for (std::size_t record = 0; record * recordBytes < contents.size(); ++record) {
    for (std::size_t i = 0; i < format.labels.size(); ++i) {
      const int label = static_cast<unsigned char>(contents[record * recordBytes + i]);
      if (label < format.labels[i]) continue;
      throw IoError(fmt::format("{}: the {} of record {} is {}, but it must be between 0 and {}.",
                                path.string(), i + 1 < format.labels.size() ? "coarse label" : "label",
                                record, label, format.labels[i] - 1));
    }
  }
}

class CifarSet final : public ImageSet {
 public:
  CifarSet(const Format& format, const fs::path& folder, std::span<const std::string_view> names)
      : recordBytes_(format.recordBytes()),
        labelAt_(format.labels.size() - 1),
        classNames_(readNames(format, folder)) {
    for (const std::string_view name : names) {
      const fs::path path = folder / name;
      if (!isFile(path)) {
        throw UsageError(
            fmt::format("There is no {} in {}; put it beside the other files of {}, or name another folder.",
                        name, folder.string(), format.name));
      }
    }
    for (const std::string_view name : names) {
      const std::string contents = readWholeFile(folder / name);
      requireRecords(format, folder / name, contents);
      files_.push_back({.name = std::string(name), .first = size()});
      if (records_.empty()) records_.reserve(contents.size() * names.size());
      records_ += contents;
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(records_.size() / recordBytes_); }
  SampleShape shape() const override { return kCifarShape; }
  const std::vector<std::string>& classNames() const override { return classNames_; }

  std::int32_t label(std::int64_t index) const override {
    return static_cast<unsigned char>(record(index)[labelAt_]);
  }

  std::string nameOf(std::int64_t index) const override {
    const auto after = std::ranges::upper_bound(files_, index, {}, &File::first);
    const File& file = *(after - 1);
    return fmt::format("{}:{}", file.name, index - file.first);
  }

  void read(std::int64_t index, const ImageRequest& /*request*/, Image& image) const override {
    image.reshape(kCifarShape);
    std::ranges::copy(record(index).substr(labelAt_ + 1), image.pixels.begin());
  }

 private:
  struct File {
    std::string name;
    std::int64_t first = 0;
  };

  std::string_view record(std::int64_t index) const {
    COHORT_CHECK(index >= 0 && index < size(), "no such image");
    return std::string_view{records_}.substr(static_cast<std::size_t>(index) * recordBytes_, recordBytes_);
  }

  std::size_t recordBytes_;
  std::size_t labelAt_;
  std::vector<std::string> classNames_;
  std::vector<File> files_;  // in the order of their images
  std::string records_;
};

std::unique_ptr<ImageSet> openFormat(const Format& format, const fs::path& place, Split split) {
  if (split == Split::Validation) return nullptr;
  const bool inside = !hasFiles(format, place) && hasFiles(format, place / format.folder);
  return std::make_unique<CifarSet>(format, inside ? place / format.folder : place,
                                    split == Split::Train ? format.train : format.test);
}

// So much is collected before it is written.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

bool isCifar10(const fs::path& place) {
  return isFormat(kCifar10, place);
}

bool isCifar100(const fs::path& place) {
  return isFormat(kCifar100, place);
}

std::unique_ptr<ImageSet> openCifar10(const fs::path& place, Split split) {
  return openFormat(kCifar10, place, split);
}

std::unique_ptr<ImageSet> openCifar100(const fs::path& place, Split split) {
  return openFormat(kCifar100, place, split);
}

Cifar10Writer::Cifar10Writer(const fs::path& path) : file_(path) {}

void Cifar10Writer::write(CifarPixels pixels, std::int32_t label) {
  COHORT_CHECK(label >= 0 && label < kCifar10.classes(), "CIFAR-10 has no such label");
  buffer_.push_back(static_cast<char>(label));
  buffer_.append(pixels.begin(), pixels.end());
  if (buffer_.size() < kBufferBytes) return;
  file_.write(buffer_);
  buffer_.clear();
}

void Cifar10Writer::commit() {
  file_.write(buffer_);
  buffer_.clear();
  file_.commit();
}

}  // namespace cohort
