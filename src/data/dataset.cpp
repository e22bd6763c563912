#include "data/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/idx_dataset.h"
#include "data/synthetic.h"

namespace cohort {
namespace {

std::unique_ptr<Dataset> openSynthetic(const DatasetOptions& options, Split split) {
  SyntheticOptions synthetic{.split = split, .seed = options.seed};
  if (options.channels != 0) synthetic.shape.channels = options.channels;
  if (options.imageSize != 0) synthetic.shape.height = synthetic.shape.width = options.imageSize;
  if (options.classes != 0) synthetic.classes = options.classes;
  synthetic.size = options.syntheticSize != 0 ? options.syntheticSize : defaultSyntheticSize(split);
  return std::make_unique<SyntheticDataset>(synthetic);
}

// Images are used as they are stored: what is asked for must be what is there.
void requireShape(const DatasetOptions& options, SampleShape shape) {
  if (options.imageSize != 0 && (options.imageSize != shape.height || options.imageSize != shape.width)) {
    throw UsageError(fmt::format(
        "The images of {} are {}x{} pixels, but {}x{} are asked for; ask for an image size of {} or "
        "choose another dataset.",
        options.name, shape.height, shape.width, options.imageSize, options.imageSize, shape.width));
  }
  if (options.channels != 0 && options.channels != shape.channels) {
    throw UsageError(fmt::format(
        "The images of {} have {} channel{}, but {} are asked for; choose another dataset or a network "
        "that takes {}.",
        options.name, shape.channels, shape.channels == 1 ? "" : "s", options.channels, shape.channels));
  }
}

}  // namespace

std::vector<std::string> datasetNames() {
  std::vector<std::string> names;
  for (const IdxSet& set : idxSets()) names.emplace_back(set.name);
  names.emplace_back(kSyntheticName);
  return names;
}

std::unique_ptr<Dataset> openDataset(const DatasetOptions& options, Split split) {
  if (options.name == kSyntheticName) return openSynthetic(options, split);
  for (const IdxSet& set : idxSets()) {
    if (options.name != set.name) continue;
    auto dataset = std::make_unique<IdxDataset>(set, findIdxDirectory(set, options.directory), split);
    requireShape(options, dataset->shape());
    return dataset;
  }
  throw UsageError(fmt::format("There is no dataset called '{}'; the datasets are {}.", options.name,
                               fmt::join(datasetNames(), ", ")));
}

}  // namespace cohort
