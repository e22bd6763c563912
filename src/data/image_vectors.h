// For tests only: sets of images that are computed.
#pragma once

#include <functional>
#include <utility>

#include "data/image_set.h"

namespace cohort {

class ComputedImages final : public ImageSet {
 public:
  // pixel(index, channel, y, x); labels go round the classes, or lie in blocks where `orderedByClass`.
  using Pixel = std::function<int(std::int64_t, int, int, int)>;
  ComputedImages(std::int64_t size, SampleShape shape, int classes, Pixel pixel, bool orderedByClass = false)
      : size_(size), shape_(shape), pixel_(std::move(pixel)), orderedByClass_(orderedByClass) {
    for (int i = 0; i < classes; ++i) classNames_.push_back("class" + std::to_string(i));
  }

  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  const std::vector<std::string>& classNames() const override { return classNames_; }
  std::int32_t label(std::int64_t index) const override {
    const auto classes = static_cast<std::int64_t>(classNames_.size());
    return static_cast<std::int32_t>(orderedByClass_ ? index * classes / size_ : index % classes);
  }
  std::string nameOf(std::int64_t index) const override { return "image-" + std::to_string(index); }
  bool orderedByClass() const override { return orderedByClass_; }
  void read(std::int64_t index, const ImageRequest&, Image& image) const override {
    image.reshape(shape_);
    std::size_t at = 0;
    for (int c = 0; c < shape_.channels; ++c) {
      for (int y = 0; y < shape_.height; ++y) {
        for (int x = 0; x < shape_.width; ++x) {
          image.pixels[at++] = static_cast<std::uint8_t>(pixel_(index, c, y, x));
        }
      }
    }
  }

 private:
  std::int64_t size_;
  SampleShape shape_;
  Pixel pixel_;
  bool orderedByClass_;
  std::vector<std::string> classNames_;
};

}  // namespace cohort
