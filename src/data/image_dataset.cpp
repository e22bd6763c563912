#include "data/image_dataset.h"

#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/split.h"

namespace cohort {
namespace {

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const ImageSet> images, const std::vector<Transform>& transforms,
               std::optional<std::uint64_t> augmentationSeed, SampleShape shape, Normalization normalization)
      : images_(std::move(images)),
        request_(requestFor(transforms, shape.channels)),
        transforms_(transforms, augmentationSeed),
        shape_(shape),
        normalization_(std::move(normalization)) {}

  std::int64_t size() const override { return images_->size(); }
  SampleShape shape() const override { return shape_; }
  int classes() const override { return static_cast<int>(images_->classNames().size()); }
  bool costly() const override { return images_->shape().height == 0 || !transforms_.empty(); }
  std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const override {
    static thread_local Image image;
    static thread_local Image spare;
    images_->read(index, request_, image);
    try {
      transforms_.apply(image, spare, position);
    } catch (const IoError& error) {
      throw IoError(fmt::format("{}: {}", images_->nameOf(index), error.what()));
    }
    normalization_.apply(image, pixels);
    return images_->label(index);
  }

 private:
  std::shared_ptr<const ImageSet> images_;
  ImageRequest request_;
  TransformList transforms_;
  SampleShape shape_;
  Normalization normalization_;
};

// For images of another size than the network's: a little larger, then some part of it, mirrored or not.
std::vector<Transform> chooseTransforms(const DatasetOptions& options, SampleShape stored) {
  if (!options.transforms.empty()) return parseTransforms(options.transforms);
  const int size = options.imageSize;
  if (size == 0 || stored.height != 0) return {};
  return {ResizeShorter{size + size / 8}, RandomCrop{size}, Flip{}};
}

SampleShape chooseShape(const std::string& name, const DatasetOptions& options, SampleShape stored,
                        const std::vector<Transform>& transforms) {
  // Decoders make grey or colour of what is stored; raw pixels are used as they are.
  if (stored.height == 0 && options.channels != 0) stored.channels = options.channels;
  const SampleShape shape = shapeAfter(transforms, stored);
  const int size = options.imageSize;
  if (shape.height == 0) {
    throw UsageError(fmt::format(
        "The images of {} differ in size; end --transforms with resize:HxW, center-crop:S or random-crop:S.",
        name));
  }
  if (shape.height != shape.width) {
    throw UsageError(
        fmt::format("The images of {} are {}x{} after --transforms {}; networks take square ones.", name,
                    shape.height, shape.width, toText(transforms)));
  }
  if (size != 0 && size != shape.height) {
    throw UsageError(fmt::format(
        "The images of {0} are {1}x{1} pixels{2}, but {3}x{3} are asked for; use --image-size {1}, or "
        "--transforms resize:{3}x{3}.",
        name, shape.height,
        transforms.empty() ? "" : fmt::format(" after --transforms {}", toText(transforms)), size));
  }
  if (options.channels != 0 && options.channels != shape.channels) {
    throw UsageError(fmt::format(
        "The images of {} have {} channel{}, but {} are asked for; choose another dataset or a network "
        "that takes {}.",
        name, shape.channels, shape.channels == 1 ? "" : "s", options.channels, shape.channels));
  }
  return shape;
}

// How many numbers per channel a given normalisation has must fit the images.
ChannelStatistics givenStatistics(const std::string& name, ChannelStatistics given, std::size_t channels) {
  if (given.mean.size() == 1) {
    given.mean.resize(channels, given.mean[0]);
    given.standardDeviation.resize(channels, given.standardDeviation[0]);
  }
  if (given.mean.size() != channels) {
    throw UsageError(fmt::format("--normalize gives {} means, but the images of {} have {} channel{}",
                                 given.mean.size(), name, channels, channels == 1 ? "" : "s"));
  }
  return given;
}

const char* nameOf(Split split) {
  return split == Split::Train ? "training" : split == Split::Test ? "test" : "validation";
}

// Opens files once, and only those that a split needs.
class ImageSource final : public DataSource {
 public:
  ImageSource(ImageDatasetOptions images, DatasetOptions options)
      : images_(std::move(images)),
        options_(std::move(options)),
        validation_(parseSplitPart(options_.validationSplit, "--validation-split")),
        test_(parseSplitPart(options_.testSplit, "--test-split")),
        normalization_(parseNormalization(options_.normalize)) {}

  std::unique_ptr<Dataset> open(Split split) override {
    std::shared_ptr<const ImageSet> images = imagesOf(split);
    const SampleShape stored = images->shape();
    const std::vector<Transform> transforms = chooseTransforms(options_, stored);
    const SampleShape shape = chooseShape(images_.name, options_, stored, transforms);
    const bool augment = split == Split::Train && options_.augment;
    return std::make_unique<ImageDataset>(std::move(images), transforms,
                                          augment ? std::optional(options_.seed) : std::nullopt, shape,
                                          chooseNormalization(transforms, shape));
  }

 private:
  using Images = std::shared_ptr<const ImageSet>;

  // A split's own files; nothing where it has none.
  const Images& files(Split split) {
    std::optional<Images>& opened = files_[static_cast<std::size_t>(split)];
    if (!opened) opened = images_.open(split);
    return *opened;
  }

  // A set without test files keeps a tenth back, by the names, unless it is told otherwise.
  SplitPart testPart() {
    if (test_.kind != SplitPart::Kind::Default || files(Split::Test)) return test_;
    return {.kind = SplitPart::Kind::Percent, .percent = 10};
  }

  const TrainingCut& cut() {
    if (!cut_) cut_ = cutTraining(*files(Split::Train), validation_, testPart());
    return *cut_;
  }

  Images imagesOf(Split split) {
    if (split == Split::Train) return trainingImages();
    const SplitPart part = split == Split::Test ? testPart() : validation_;
    if (part.cutsTraining()) {
      trainingImages();
      return selectImages(files(Split::Train), split == Split::Test ? cut().test : cut().validation);
    }
    Images own = part.kind == SplitPart::Kind::None ? nullptr : files(split);
    if (!own) {
      throw UsageError(
          fmt::format("{0} has no {1} files; set some of its training images aside with --{1}-split N or P%",
                      images_.name, nameOf(split)));
    }
    return own;
  }

  Images trainingImages() {
    const Images& all = files(Split::Train);
    if (!all) throw UsageError(fmt::format("{} has no training files", images_.name));
    if (!validation_.cutsTraining() && !testPart().cutsTraining()) return all;
    return selectImages(all, cut().train);
  }

  Normalization chooseNormalization(const std::vector<Transform>& transforms, SampleShape shape) {
    using Kind = NormalizationChoice::Kind;
    const auto channels = static_cast<std::size_t>(shape.channels);
    switch (normalization_.kind) {
      case Kind::None:
        return Normalization::byChannel({.mean = std::vector<float>(channels, 0.0f),
                                         .standardDeviation = std::vector<float>(channels, 1.0f)});
      case Kind::Image:
        return Normalization::byImage();
      case Kind::Given:
        return Normalization::byChannel(givenStatistics(images_.name, normalization_.given, channels));
      case Kind::Dataset:
        if (images_.known && images_.known->mean.size() == channels) {
          return Normalization::byChannel(*images_.known);
        }
        break;
      case Kind::Measured:
      case Kind::MeanImage:
        break;
    }
    if (!measured_) {
      measured_ = measureStatistics(*trainingImages(), transforms, shape, options_.cacheDirectory);
    }
    return normalization_.kind == Kind::MeanImage ? Normalization::byMeanImage(*measured_)
                                                  : Normalization::byChannel(measured_->channels);
  }

  ImageDatasetOptions images_;
  DatasetOptions options_;
  SplitPart validation_;
  SplitPart test_;
  NormalizationChoice normalization_;
  std::array<std::optional<Images>, 3> files_;  // by split, once opened
  std::optional<TrainingCut> cut_;
  std::optional<MeasuredStatistics> measured_;
};

}  // namespace

std::unique_ptr<DataSource> imageSource(ImageDatasetOptions images, DatasetOptions options) {
  return std::make_unique<ImageSource>(std::move(images), std::move(options));
}

}  // namespace cohort
