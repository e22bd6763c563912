#include "data/split.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace cohort {
namespace {

class SelectedImages final : public ImageSet {
 public:
  SelectedImages(std::shared_ptr<const ImageSet> set, std::vector<std::int64_t> indices)
      : set_(std::move(set)), indices_(std::move(indices)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  SampleShape shape() const override { return set_->shape(); }
  const std::vector<std::string>& classNames() const override { return set_->classNames(); }
  std::int32_t label(std::int64_t index) const override { return set_->label(at(index)); }
  std::string nameOf(std::int64_t index) const override { return set_->nameOf(at(index)); }
  bool orderedByClass() const override { return set_->orderedByClass(); }
  void read(std::int64_t index, const ImageRequest& request, Image& image) const override {
    set_->read(at(index), request, image);
  }

 private:
  std::int64_t at(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const ImageSet> set_;
  std::vector<std::int64_t> indices_;
};

template <class Number>
bool parsed(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Takes `part` out of `rest`.
std::vector<std::int64_t> takePart(const ImageSet& set, const SplitPart& part, double percentBefore,
                                   std::vector<std::int64_t>& rest) {
  std::vector<std::int64_t> taken;
  if (part.kind == SplitPart::Kind::Count) {
    if (part.count >= std::ssize(rest)) {
      throw UsageError(fmt::format("{} of {} training images cannot be set aside; leave some to train on",
                                   part.count, rest.size()));
    }
    std::vector<std::int64_t> order = rest;
    if (set.orderedByClass()) {
      std::ranges::sort(order, {}, [&](std::int64_t i) { return std::pair(hashName(set.nameOf(i)), i); });
      std::ranges::reverse(order);
    }
    taken.assign(order.end() - part.count, order.end());
    std::ranges::sort(taken);
  } else if (part.kind == SplitPart::Kind::Percent) {
    // Ten thousand places on a circle; parts are neighbours on it.
    const auto from = static_cast<std::uint64_t>(percentBefore * 100);
    const auto to = static_cast<std::uint64_t>((percentBefore + part.percent) * 100);
    for (const std::int64_t i : rest) {
      const std::uint64_t place = hashName(set.nameOf(i)) % 10'000;
      if (place >= from && place < to) taken.push_back(i);
    }
  }
  if (taken.empty()) return taken;
  std::vector<std::int64_t> left;
  std::ranges::set_difference(rest, taken, std::back_inserter(left));
  rest = std::move(left);
  return taken;
}

}  // namespace

SplitPart parseSplitPart(const std::string& text, const std::string& flag) {
  if (text.empty()) return {};
  if (text == "files") return {.kind = SplitPart::Kind::Files};
  if (text == "none" || text == "0") return {.kind = SplitPart::Kind::None};
  SplitPart part;
  if (text.back() == '%') {
    part.kind = SplitPart::Kind::Percent;
    if (parsed(text.substr(0, text.size() - 1), part.percent) && part.percent > 0 && part.percent < 100) {
      return part;
    }
  } else {
    part.kind = SplitPart::Kind::Count;
    if (parsed(text, part.count) && part.count > 0) return part;
  }
  throw UsageError(fmt::format(
      "{} is files, none, a number of images such as 5000, or a share such as 10%, not '{}'", flag, text));
}

TrainingCut cutTraining(const ImageSet& set, const SplitPart& validation, const SplitPart& test) {
  TrainingCut cut;
  cut.train.resize(static_cast<std::size_t>(set.size()));
  std::iota(cut.train.begin(), cut.train.end(), 0);
  if (validation.percent + test.percent >= 100) {
    throw UsageError("--validation-split and --test-split leave nothing to train on; use smaller shares");
  }
  cut.test = takePart(set, test, 0, cut.train);
  cut.validation = takePart(set, validation, test.percent, cut.train);
  const auto requirePart = [&](const std::vector<std::int64_t>& part, const SplitPart& wanted,
                               const char* flag) {
    if (part.empty() && wanted.cutsTraining()) {
      throw UsageError(fmt::format("{} gives no image of {}; use a larger share", flag, set.size()));
    }
  };
  requirePart(cut.test, test, "--test-split");
  requirePart(cut.validation, validation, "--validation-split");
  if (cut.train.empty()) throw UsageError("the splits leave nothing to train on; use smaller shares");
  return cut;
}

std::unique_ptr<ImageSet> selectImages(std::shared_ptr<const ImageSet> set,
                                       std::vector<std::int64_t> indices) {
  return std::make_unique<SelectedImages>(std::move(set), std::move(indices));
}

}  // namespace cohort
