#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/image_dataset.h"
#include "data/image_format.h"
#include "data/synthetic.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// The sets that people name. Their files may be in any format that recogniseImages knows, if they have its classes.
struct NamedSet {
  std::string_view name;
  std::string_view description;
  int classes = 0;                      // 0: any number
  std::string_view packageDirectory{};  // where a Debian package puts its files
  bool canBeFetched = false;
  // Of the training pixels, black = 0, white = 1; no channels: not known.
  std::size_t channels = 0;
  std::array<float, 3> mean{};
  std::array<float, 3> standardDeviation{};
};

constexpr std::array kSets = {
    NamedSet{.name = "fashion-mnist",
             .description = "60,000 + 10,000 pieces of clothing, 28x28, grey, 10 classes",
             .classes = 10,
             .packageDirectory = "/usr/share/datasets/fashion-mnist",
             .canBeFetched = true,
             .channels = 1,
             .mean = {0.2860f},
             .standardDeviation = {0.3530f}},
    NamedSet{.name = "mnist",
             .description = "60,000 + 10,000 handwritten digits, 28x28, grey",
             .classes = 10,
             .canBeFetched = true,
             .channels = 1,
             .mean = {0.1307f},
             .standardDeviation = {0.3081f}},
    NamedSet{.name = "cifar10",
             .description = "50,000 + 10,000 photographs, 32x32, 10 classes: binary files or TFRecords",
             .classes = 10,
             .canBeFetched = true,
             .channels = 3,
             .mean = {0.4914f, 0.4822f, 0.4465f},
             .standardDeviation = {0.2470f, 0.2435f, 0.2616f}},
    NamedSet{.name = "cifar100",
             .description = "the same with 100 classes: binary files",
             .classes = 100,
             .channels = 3,
             .mean = {0.5071f, 0.4865f, 0.4409f},
             .standardDeviation = {0.2673f, 0.2564f, 0.2762f}},
    NamedSet{.name = "flowers",
             .description = "3,670 photographs of five kinds of flowers, JPEG in class folders",
             .canBeFetched = true},
    NamedSet{
        .name = "folder",
        .description = "your own: JPEG and PNG in class folders, TFRecords or a packed file, at --data-dir"},
};

fs::path findPlace(const NamedSet& set, const fs::path& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (fs::exists(given, ignored)) return given;
    throw UsageError(
        fmt::format("The data folder {} does not exist; name the folder that holds the files of {}.",
                    given.string(), set.name));
  }
  if (set.name == "folder") {
    throw UsageError("--dataset folder needs --data-dir: the folder that holds the class folders.");
  }
  fs::path local = fs::path("data") / set.name;
  if (fs::exists(local, ignored)) return local;
  if (!set.packageDirectory.empty() && fs::exists(set.packageDirectory, ignored)) return set.packageDirectory;
  throw UsageError(fmt::format(
      "The files of {0} are not in {1}; {2}name their folder with --data-dir.", set.name, local.string(),
      set.canBeFetched ? fmt::format("get them with 'cohort data fetch {}', or ", set.name) : ""));
}

std::optional<ChannelStatistics> knownStatistics(const NamedSet& set) {
  if (set.channels == 0) return std::nullopt;
  const auto end = static_cast<std::ptrdiff_t>(set.channels);
  return ChannelStatistics{
      .mean = {set.mean.begin(), set.mean.begin() + end},
      .standardDeviation = {set.standardDeviation.begin(), set.standardDeviation.begin() + end}};
}

std::unique_ptr<DataSource> openNamed(const NamedSet& set, const DatasetOptions& options) {
  const fs::path place = findPlace(set, options.directory);
  const ImageFormat& format = recogniseImages(place);
  const OpenImages open = [place, &format, &set](Split split) {
    std::unique_ptr<ImageSet> images = format.open(place, split);
    if (images && set.classes != 0 && std::ssize(images->classNames()) != set.classes) {
      throw UsageError(fmt::format("{} has {} classes, but {} has {}; use --dataset folder for it.",
                                   place.string(), images->classNames().size(), set.name, set.classes));
    }
    return images;
  };
  return imageSource({.name = std::string(set.name), .open = open, .known = knownStatistics(set)}, options);
}

class SyntheticSource final : public DataSource {
 public:
  explicit SyntheticSource(const DatasetOptions& options) : options_(options) {
    for (const auto& [text, flag] :
         {std::pair(options.transforms, "--transforms"), std::pair(options.normalize, "--normalize"),
          std::pair(options.validationSplit, "--validation-split"),
          std::pair(options.testSplit, "--test-split")}) {
      if (!text.empty() && text != "none") {
        throw UsageError(
            fmt::format("{} {} is for images, but synthetic samples are computed; leave it out", flag, text));
      }
    }
  }
  std::unique_ptr<Dataset> open(Split split) override {
    SyntheticOptions synthetic{.split = split, .seed = options_.seed};
    if (options_.channels != 0) synthetic.shape.channels = options_.channels;
    if (options_.imageSize != 0) synthetic.shape.height = synthetic.shape.width = options_.imageSize;
    if (options_.classes != 0) synthetic.classes = options_.classes;
    const std::int64_t size = split == Split::Train ? options_.samples : options_.testSamples;
    synthetic.size = size != 0 ? size : defaultSyntheticSize(split);
    return std::make_unique<SyntheticDataset>(synthetic);
  }

 private:
  DatasetOptions options_;
};

}  // namespace

DatasetRegistry builtinDatasets() {
  DatasetRegistry registry;
  for (const NamedSet& set : kSets) {
    registry.add({.name = std::string(set.name),
                  .description = std::string(set.description),
                  .open = [&set](const DatasetOptions& options) { return openNamed(set, options); }});
  }
  registry.add(
      {.name = std::string(kSyntheticName),
       .description = "computed samples of any shape and number: needs no files",
       .open = [](const DatasetOptions& options) { return std::make_unique<SyntheticSource>(options); }});
  return registry;
}

}  // namespace cohort
