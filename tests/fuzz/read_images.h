// For tests only: asks a set of images for all that it has.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "data/image_set.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

// The first few images; `name` is that of their file.
inline void readImages(const ImageSet& set, std::string_view name) {
  constexpr std::int64_t kMost = 8;
  if (set.size() < 1) failFuzzing("A set has no images.");
  for (std::int64_t i = 0; i < std::min(set.size(), kMost); ++i) {
    const std::int32_t label = set.label(i);
    if (label < 0 || static_cast<std::size_t>(label) >= set.classNames().size())
      failFuzzing("A label has no class.");
    if (set.nameOf(i).size() > std::size_t{1} << 20) failFuzzing("A name is longer than its file.");
    for (const int channels : {1, 3}) {
      isAccepted(name, [&] {
        Image image;
        set.read(i, {.channels = channels}, image);
        if (image.pixels.size() != image.shape.count())
          failFuzzing("An image has another size than its shape.");
      });
    }
    isAccepted(name, [&] {
      std::string bytes;
      set.encoded(i, bytes);
    });
  }
}

}  // namespace cohort
