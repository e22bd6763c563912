// MNIST and its drop-in successors: grey images and ten classes, in IDX files. A split is held in memory as
// bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace cohort {

// What distinguishes one set from another.
struct IdxSet {
  std::string_view name;
  float mean = 0.0f;  // of the training pixels, black = 0, white = 1
  float standardDeviation = 1.0f;
  std::string_view packageDirectory;  // where a Debian package puts its files; empty: there is none
  std::string_view package;
};

std::span<const IdxSet> idxSets();

// `given` where it is not empty, else data/NAME, else the package's folder; UsageError where none exists.
std::filesystem::path findIdxDirectory(const IdxSet& set, const std::filesystem::path& given);

class IdxDataset final : public Dataset {
 public:
  // Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-… for the test split), as they are or
  // with .gz behind their names.
  IdxDataset(const IdxSet& set, const std::filesystem::path& directory, Split split);

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  SampleShape shape() const override { return shape_; }
  int classes() const override { return kClasses; }
  std::string name() const override { return name_; }
  std::int32_t read(std::int64_t index, std::span<float> pixels) const override;

 private:
  static constexpr int kClasses = 10;

  std::string name_;
  SampleShape shape_;
  std::vector<std::uint8_t> pixels_;  // [samples, height, width]
  std::vector<std::uint8_t> labels_;  // [samples]
  // The normalised value of a pixel is byte * scale_ + offset_: unlike a table, this vectorises.
  float scale_;
  float offset_;
};

}  // namespace cohort
