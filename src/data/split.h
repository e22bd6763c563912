// Which images of a set belong to training, validation and test, where files do not say it.
//
//   files  the dataset has files for it
//   none   there is no such part
//   N      N images of the training files: the last ones, or, where files are ordered by class, those whose names have the
//          smallest hashes
//   P%     those whose names' hashes fall into the first P hundredths: a name stays where it is when others come or go
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/image_set.h"

namespace cohort {

struct SplitPart {
  enum class Kind { Default, Files, None, Count, Percent };
  Kind kind = Kind::Default;
  std::int64_t count = 0;
  double percent = 0;
  bool cutsTraining() const { return kind == Kind::Count || kind == Kind::Percent; }
};

// `flag` is what the text belongs to, for messages. "" is Default.
SplitPart parseSplitPart(const std::string& text, const std::string& flag);

// The indices of training files that stay, or that a cut-off part gets. The test part is cut off first.
struct TrainingCut {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
  std::vector<std::int64_t> test;
};
// UsageError where nothing would be left to train on, or a part would be empty.
TrainingCut cutTraining(const ImageSet& set, const SplitPart& validation, const SplitPart& test);

// The images of `set` at `indices`, in that order.
std::unique_ptr<ImageSet> selectImages(std::shared_ptr<const ImageSet> set,
                                       std::vector<std::int64_t> indices);

}  // namespace cohort
