#include "data/convert.h"

#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "data/cifar.h"
#include "data/image_format.h"
#include "data/tfrecord.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameFile = "batches.meta.txt";
constexpr int kBinaryClasses = 10;
constexpr std::int64_t kBatches = 5;

// One image of one set.
struct Sample {
  const ImageSet* set = nullptr;
  std::int64_t index = 0;
};

struct PlannedFile {
  std::string name;
  std::vector<Sample> samples;
};

void append(std::vector<Sample>& samples, const ImageSet* set) {
  if (set == nullptr) return;
  for (std::int64_t i = 0; i < set->size(); ++i) samples.push_back({.set = set, .index = i});
}

// ---- what fits

[[noreturn]] void refuse(const ConvertSource& source, std::string_view why) {
  throw UsageError(fmt::format("{} cannot be converted: {}.", source.place, why));
}

void requireShape(const ConvertSource& source, const ImageSet& set) {
  const SampleShape shape = set.shape();
  if (shape == kCifarShape) return;
  if (shape.height == 0)
    refuse(source, "its images differ in size, and the target holds images of 32x32 pixels");
  refuse(source,
         fmt::format("its images have {}x{} pixels and {} channel{}, but the target holds 32x32 and 3",
                     shape.height, shape.width, shape.channels, shape.channels == 1 ? "" : "s"));
}

bool hasClassNames(const ImageSet& set) {
  const std::vector<std::string>& names = set.classNames();
  for (std::size_t label = 0; label < names.size(); ++label) {
    if (names[label] != std::to_string(label)) return true;
  }
  return false;
}

// ---- which image goes where

std::vector<PlannedFile> planTfrecords(const ConvertSource& source) {
  PlannedFile train{.name = "train.tfrecords", .samples = {}};
  PlannedFile validation{.name = "validation.tfrecords", .samples = {}};
  PlannedFile test{.name = "eval.tfrecords", .samples = {}};
  std::vector<Sample> all;
  append(all, source.train.get());
  if (source.validation != nullptr || source.train == nullptr) {
    train.samples = std::move(all);
    append(validation.samples, source.validation.get());
  } else if (source.train->orderedByClass()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      (i % 10 == 9 ? validation : train).samples.push_back(all[i]);
    }
  } else {
    // 50,000 give 5,000: a tenth is right for CIFAR too.
    const auto border = all.end() - std::ssize(all) / 10;
    train.samples.assign(all.begin(), border);
    validation.samples.assign(border, all.end());
  }
  append(test.samples, source.test.get());
  std::vector<PlannedFile> files = {std::move(train), std::move(validation), std::move(test)};
  std::erase_if(files, [](const PlannedFile& file) { return file.samples.empty(); });
  return files;
}

std::vector<PlannedFile> planBinary(const ConvertSource& source) {
  std::vector<Sample> all;
  append(all, source.train.get());
  append(all, source.validation.get());
  const std::int64_t count = std::ssize(all);
  if (count < kBatches) {
    refuse(source, fmt::format("it has {} training images, but each of the {} data batches needs one", count,
                               kBatches));
  }
  if (source.test == nullptr) refuse(source, "it has no test images, which test_batch.bin needs");
  std::vector<PlannedFile> files;
  auto next = all.begin();
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    const auto end = next + count / kBatches + (batch < count % kBatches ? 1 : 0);
    files.push_back({.name = fmt::format("data_batch_{}.bin", batch + 1), .samples = {next, end}});
    next = end;
  }
  files.push_back({.name = "test_batch.bin", .samples = {}});
  append(files.back().samples, source.test.get());
  return files;
}

void requireBinaryClasses(const ConvertSource& source, const ImageSet& set) {
  const std::size_t classes = set.classNames().size();
  // A split that lacks the highest labels may seem to have fewer.
  if (classes <= std::size_t{kBinaryClasses} &&
      (classes == std::size_t{kBinaryClasses} || !hasClassNames(set))) {
    return;
  }
  refuse(source, fmt::format("it has {} classes, but the binary files are those of CIFAR-10 and hold {}",
                             classes, kBinaryClasses));
}

// ---- writing

void requireNew(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return;
  throw UsageError(fmt::format(
      "{} exists already; remove it, or name another folder for the converted files.", path.string()));
}

void makeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (fs::is_directory(folder, error)) return;
  throw UsageError(
      fmt::format("{} cannot be made a folder for the converted files; name another one.", folder.string()));
}

template <typename Writer>
void writeSamples(const std::vector<Sample>& samples, Writer& writer) {
  Image image;
  for (const Sample& sample : samples) {
    sample.set->read(sample.index, {.channels = kCifarShape.channels}, image);
    COHORT_CHECK(image.shape == kCifarShape, "an image has another shape than its set says");
    writer.write(CifarPixels(image.pixels), sample.set->label(sample.index));
  }
}

// All files are complete before the first gets its name.
template <typename Writer>
void writeFiles(const std::vector<PlannedFile>& files, const fs::path& folder) {
  std::vector<std::unique_ptr<Writer>> writers;
  for (const PlannedFile& file : files) {
    writers.push_back(std::make_unique<Writer>(folder / file.name));
    writeSamples(file.samples, *writers.back());
  }
  for (const auto& writer : writers) writer->commit();
}

void writeNames(const ImageSet& set, const fs::path& path) {
  writeWholeFile(path, fmt::format("{}\n", fmt::join(set.classNames(), "\n")));
}

}  // namespace

ConvertReport convertDataset(const fs::path& from, const fs::path& to, ConvertTarget target) {
  const ImageFormat& format = recogniseImages(from);
  return convertDataset(ConvertSource{.place = from.string(),
                                      .description = std::string(format.description),
                                      .train = format.open(from, Split::Train),
                                      .validation = format.open(from, Split::Validation),
                                      .test = format.open(from, Split::Test)},
                        to, target);
}

ConvertReport convertDataset(const ConvertSource& source, const fs::path& to, ConvertTarget target) {
  for (const ImageSet* set : {source.train.get(), source.validation.get(), source.test.get()}) {
    if (set == nullptr) continue;
    requireShape(source, *set);
    if (target == ConvertTarget::Binary) requireBinaryClasses(source, *set);
  }
  const bool binary = target == ConvertTarget::Binary;
  const std::vector<PlannedFile> files = binary ? planBinary(source) : planTfrecords(source);
  if (files.empty()) refuse(source, "it has no images");
  for (const PlannedFile& file : files) requireNew(to / file.name);
  const bool withNames = binary && source.train != nullptr && hasClassNames(*source.train);
  if (withNames) requireNew(to / kNameFile);

  makeFolder(to);
  if (binary) {
    writeFiles<Cifar10Writer>(files, to);
    if (withNames) writeNames(*source.train, to / kNameFile);
  } else {
    writeFiles<TfrecordWriter>(files, to);
  }
  ConvertReport report{.source = source.description, .files = {}};
  for (const PlannedFile& file : files) {
    report.files.push_back({.path = to / file.name, .images = std::ssize(file.samples)});
  }
  return report;
}

}  // namespace cohort
