// 8-bit images: what files hold, before they become numbers for a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

struct SampleShape {
  int channels = 0;
  int height = 0;
  int width = 0;

  std::size_t count() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  bool operator==(const SampleShape&) const = default;
};

// Used again and again: growing is the only time that it allocates.
struct Image {
  SampleShape shape;                 // 1 channel (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;  // plain [channels, height, width]

  void reshape(SampleShape to) {
    shape = to;
    pixels.resize(to.count());
  }
};

}  // namespace cohort
