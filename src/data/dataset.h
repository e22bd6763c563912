// Labelled images by index, and the one place where a dataset's name becomes a dataset.
//
// A Dataset never changes after its construction: any number of threads may read from it. What `read` gives
// is a function of the dataset and the index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/image_set.h"

namespace cohort {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // samples, at least 1
  virtual SampleShape shape() const = 0;
  virtual int classes() const = 0;
  virtual std::string name() const = 0;
  // Writes the sample's pixels (plain [channels, height, width], about zero mean and unit variance over the
  // set) and returns its label in [0, classes). Allocates nothing.
  virtual std::int32_t read(std::int64_t index, std::span<float> pixels) const = 0;
};

struct DatasetOptions {
  std::string name;
  // Where its files are; empty: data/NAME in the current folder, then where Debian's package puts them.
  std::filesystem::path directory{};
  int channels = 0;                // 0: the dataset's own
  int imageSize = 0;               // 0: the dataset's own
  int classes = 0;                 // synthetic only; 0: its default
  std::int64_t syntheticSize = 0;  // synthetic only, samples in the split; 0: its default
  std::uint64_t seed = 0;          // synthetic only
};

// The names that openDataset knows.
std::vector<std::string> datasetNames();

// UsageError for what the options get wrong, IoError for files that are damaged.
std::unique_ptr<Dataset> openDataset(const DatasetOptions& options, Split split);

}  // namespace cohort
