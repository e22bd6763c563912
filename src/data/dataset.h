// Labelled samples by index, as a network sees them, and the registry that turns a dataset's name into one.
//
// A Dataset never changes after its construction: any number of threads may read from it. What `read` gives is a function
// of the dataset, the index and the position alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  // Reading a sample takes longer than copying it would: worth doing ahead, on threads of their own.
  virtual bool costly() const { return false; }
  // Writes the sample's pixels (plain [channels, height, width], about zero mean and unit variance over the set) and
  // returns its label in [0, classes). `position` is the sample's place in the run and keys its augmentation.
  virtual std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const = 0;
};

struct DatasetOptions {
  // Where its files are; empty: data/NAME in the current folder, then where Debian's package puts them.
  std::filesystem::path directory{};
  int channels = 0;              // 0: the dataset's own
  int imageSize = 0;             // 0: the dataset's own, or what the transforms make
  int classes = 0;               // synthetic only; 0: its default
  std::int64_t samples = 0;      // synthetic only, in the training split; 0: its default
  std::int64_t testSamples = 0;  // synthetic only, in each other split; 0: its default
  std::uint64_t seed = 0;        // of augmentation, and of synthetic samples

  // For images; each in the words of its flag, empty: the default.
  std::string transforms{};       // transform.h
  std::string normalize{};        // normalization.h
  std::string validationSplit{};  // split.h
  std::string testSplit{};
  bool augment = true;  // false: random transforms do what they do in evaluation
  // Where measured statistics are kept; empty: they are measured each time.
  std::filesystem::path cacheDirectory{};
};

// The splits of one dataset, which share what has been opened. Used by one thread; the datasets outlive it.
class DataSource {
 public:
  virtual ~DataSource() = default;
  // UsageError where there is no such split, IoError where its files are damaged.
  virtual std::unique_ptr<Dataset> open(Split split) = 0;
};

// A dataset by name.
struct DatasetFormat {
  std::string name;
  std::string description;  // one line, for lists
  // UsageError for what the options get wrong.
  std::function<std::unique_ptr<DataSource>(const DatasetOptions& options)> open;
};

// A plain value: it is made, filled and handed on, there is no global one. Reading it from several threads is safe.
class DatasetRegistry {
 public:
  // A name that is taken is a UsageError.
  void add(DatasetFormat format);
  // An unknown name is a UsageError that offers the nearest one and lists all.
  const DatasetFormat& find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::vector<DatasetFormat> formats_;
};

// Every dataset of this library.
DatasetRegistry builtinDatasets();

}  // namespace cohort
