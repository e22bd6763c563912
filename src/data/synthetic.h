// Samples of any shape that are computed, not stored: to measure without a disk, and to test training.
//
// Sample i belongs to class i mod classes. Its pixels are that class's pattern (per channel, the product of
// one slow triangle wave down and one across) plus noise of its own; together they have about zero mean and
// unit variance, and even a linear model tells the classes apart. The patterns depend on (seed, class,
// channel), so both splits share them; the noise depends on (seed, split, index, pixel). All arithmetic is
// the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/philox.h"
#include "data/dataset.h"

namespace cohort {

inline constexpr std::string_view kSyntheticName = "synthetic";

constexpr std::int64_t defaultSyntheticSize(Split split) {
  return split == Split::Train ? 10'000 : 1'000;
}

struct SyntheticOptions {
  SampleShape shape{.channels = 3, .height = 32, .width = 32};
  int classes = 10;
  std::int64_t size = defaultSyntheticSize(Split::Train);
  Split split = Split::Train;
  std::uint64_t seed = 0;
};

class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(const SyntheticOptions& options);

  std::int64_t size() const override { return options_.size; }
  SampleShape shape() const override { return options_.shape; }
  int classes() const override { return options_.classes; }
  std::int32_t read(std::int64_t index, std::int64_t position, std::span<float> pixels) const override;

 private:
  SyntheticOptions options_;
  PhiloxKey patternKey_;
  PhiloxKey noiseKey_;
};

}  // namespace cohort
