// Geometry: how a stored image becomes one of the network's size. Named by a text such as
//
//   resize:256,random-crop:224,flip
//
//   resize:S       the shorter side becomes S, the aspect is kept
//   resize:HxW     exactly H rows of W pixels
//   center-crop:S  the middle S x S
//   random-crop:S  S x S somewhere; in evaluation the middle
//   pad-crop:P     P black pixels on every side, then the old size from somewhere; in evaluation nothing
//   flip           left and right change sides in every second sample; in evaluation nothing
//
// A random step is a function of (seed, its place in the list, the sample's position in the run).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/image_codec.h"

namespace cohort {

struct ResizeShorter {
  int size = 0;
  bool operator==(const ResizeShorter&) const = default;
};
struct ResizeTo {
  int height = 0;
  int width = 0;
  bool operator==(const ResizeTo&) const = default;
};
struct CenterCrop {
  int size = 0;
  bool operator==(const CenterCrop&) const = default;
};
struct RandomCrop {
  int size = 0;
  bool operator==(const RandomCrop&) const = default;
};
struct PadCrop {
  int padding = 0;
  bool operator==(const PadCrop&) const = default;
};
struct Flip {
  bool operator==(const Flip&) const = default;
};
using Transform = std::variant<ResizeShorter, ResizeTo, CenterCrop, RandomCrop, PadCrop, Flip>;

// "" and "none" are the empty list; UsageError that names the step and the known ones.
std::vector<Transform> parseTransforms(std::string_view text);
std::string toText(const std::vector<Transform>& transforms);

// The size that comes out for images of `shape` (height and width 0: of any size); heights or widths that depend on the
// image are 0. UsageError where a crop is larger than what it crops.
SampleShape shapeAfter(const std::vector<Transform>& transforms, SampleShape shape);

// What a decoder must at least give, so that the first step has enough pixels.
ImageRequest requestFor(const std::vector<Transform>& transforms, int channels);

// Applies a list to images; `const` functions may be called by any number of threads.
class TransformList {
 public:
  // Without a seed: as in evaluation.
  TransformList(std::vector<Transform> transforms, std::optional<std::uint64_t> seed);

  // Changes `image` in place; `spare` is room of the same kind. IoError where the image is smaller than a crop.
  void apply(Image& image, Image& spare, std::int64_t position) const;
  bool empty() const { return transforms_.empty(); }

 private:
  std::vector<Transform> transforms_;
  std::optional<std::uint64_t> seed_;
};

// Resamples with a triangle filter that widens where the image shrinks, so that nothing is skipped.
void resizeImage(const Image& from, int height, int width, Image& to);

}  // namespace cohort
