#include "data/transform.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/philox.h"

namespace cohort {
namespace {

constexpr int kLargestSide = 1 << 15;

const std::vector<std::string>& stepNames() {
  static const std::vector<std::string> names = {"resize", "center-crop", "random-crop", "pad-crop", "flip"};
  return names;
}

[[noreturn]] void refuse(std::string_view step) {
  const std::string nearest = nearestWord(std::string(step.substr(0, step.find_first_of(":="))), stepNames());
  throw UsageError(
      fmt::format("--transforms: '{}' is no step{}; the steps are resize:S, resize:HxW, center-crop:S, "
                  "random-crop:S, pad-crop:P and flip",
                  step, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
}

int parseSide(std::string_view text, std::string_view step) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(step);
  if (value < 1 || value > kLargestSide) {
    throw UsageError(fmt::format("--transforms: the size in '{}' must be from 1 to {}", step, kLargestSide));
  }
  return value;
}

Transform parseStep(std::string_view step) {
  const std::size_t colon = step.find_first_of(":=");
  const std::string_view name = step.substr(0, colon);
  const std::string_view size = colon == std::string_view::npos ? "" : step.substr(colon + 1);
  if (name == "flip" && colon == std::string_view::npos) return Flip{};
  if (name == "resize") {
    const std::size_t by = size.find('x');
    if (by == std::string_view::npos) return ResizeShorter{parseSide(size, step)};
    return ResizeTo{parseSide(size.substr(0, by), step), parseSide(size.substr(by + 1), step)};
  }
  if (name == "center-crop") return CenterCrop{parseSide(size, step)};
  if (name == "random-crop") return RandomCrop{parseSide(size, step)};
  if (name == "pad-crop") return PadCrop{parseSide(size, step)};
  refuse(step);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Calls the overload for the alternative.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 does not find it by itself

std::string textOf(const Transform& transform) {
  return std::visit(
      Overloaded{[](const ResizeShorter& t) { return fmt::format("resize:{}", t.size); },
                 [](const ResizeTo& t) { return fmt::format("resize:{}x{}", t.height, t.width); },
                 [](const CenterCrop& t) { return fmt::format("center-crop:{}", t.size); },
                 [](const RandomCrop& t) { return fmt::format("random-crop:{}", t.size); },
                 [](const PadCrop& t) { return fmt::format("pad-crop:{}", t.padding); },
                 [](const Flip&) { return std::string("flip"); }},
      transform);
}

SampleShape resizedShorter(SampleShape shape, int size) {
  const auto longer = [&](int side, int shorter) {
    return std::max(size, static_cast<int>(std::lround(static_cast<double>(side) * size / shorter)));
  };
  if (shape.height <= shape.width) return {shape.channels, size, longer(shape.width, shape.height)};
  return {shape.channels, longer(shape.height, shape.width), size};
}

// One crop for both kinds: `from` at (top, left), as large as `to` already is; what lies outside is black.
void copyWindow(const Image& from, int top, int left, Image& to) {
  const SampleShape in = from.shape;
  const SampleShape out = to.shape;
  const int firstColumn = std::clamp(-left, 0, out.width);
  const int lastColumn = std::clamp(in.width - left, firstColumn, out.width);
  for (int c = 0; c < out.channels; ++c) {
    for (int y = 0; y < out.height; ++y) {
      std::uint8_t* row = to.pixels.data() + (static_cast<std::size_t>(c) * out.height + y) * out.width;
      const int source = y + top;
      if (source < 0 || source >= in.height) {
        std::memset(row, 0, static_cast<std::size_t>(out.width));
        continue;
      }
      const std::uint8_t* begin =
          from.pixels.data() + (static_cast<std::size_t>(c) * in.height + source) * in.width;
      std::memset(row, 0, static_cast<std::size_t>(firstColumn));
      std::memcpy(row + firstColumn, begin + left + firstColumn,
                  static_cast<std::size_t>(lastColumn - firstColumn));
      std::memset(row + lastColumn, 0, static_cast<std::size_t>(out.width - lastColumn));
    }
  }
}

void mirror(Image& image) {
  const auto width = static_cast<std::ptrdiff_t>(image.shape.width);
  for (auto row = image.pixels.begin(); row != image.pixels.end(); row += width) {
    std::reverse(row, row + width);
  }
}

// In [0, range), from 32 random bits.
int below(std::uint32_t bits, int range) {
  return static_cast<int>(std::uint64_t{bits} * static_cast<std::uint64_t>(range) >> 32);
}

// How much each old pixel gives to a new one, along one direction.
struct Taps {
  std::vector<int> first;      // by new pixel
  std::vector<int> count;      // at most `most`
  std::vector<float> weights;  // [new pixels, most]
  int most = 0;
};

void planTaps(int from, int to, Taps& taps) {
  const double step = static_cast<double>(from) / to;
  const double reach = std::max(1.0, step);  // of the triangle, in old pixels
  taps.most = static_cast<int>(std::ceil(reach)) * 2 + 1;
  taps.first.resize(static_cast<std::size_t>(to));
  taps.count.resize(static_cast<std::size_t>(to));
  taps.weights.assign(static_cast<std::size_t>(to) * static_cast<std::size_t>(taps.most), 0.0f);
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * step;
    const int first = std::max(0, static_cast<int>(std::floor(center - reach + 0.5)));
    const int last = std::min(from, static_cast<int>(std::floor(center + reach + 0.5)));
    const int count = std::min(last - first, taps.most);
    float* weights = taps.weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.most);
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      sum += std::max(0.0, 1.0 - std::abs(first + k + 0.5 - center) / reach);
    }
    for (int k = 0; k < count; ++k) {
      const double weight = std::max(0.0, 1.0 - std::abs(first + k + 0.5 - center) / reach);
      weights[k] = static_cast<float>(weight / sum);
    }
    taps.first[static_cast<std::size_t>(i)] = first;
    taps.count[static_cast<std::size_t>(i)] = count;
  }
}

std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

// Scratch of one thread's resizing.
struct ResizeRoom {
  Taps rows;
  Taps columns;
  std::vector<float> line;  // one row of the new height and the old width
};

void resizePlane(const std::uint8_t* from, SampleShape in, SampleShape out, ResizeRoom& room,
                 std::uint8_t* to) {
  room.line.resize(static_cast<std::size_t>(in.width));
  for (int y = 0; y < out.height; ++y) {
    const auto row = static_cast<std::size_t>(y);
    std::ranges::fill(room.line, 0.0f);
    for (int k = 0; k < room.rows.count[row]; ++k) {
      const float weight =
          room.rows.weights[row * static_cast<std::size_t>(room.rows.most) + static_cast<std::size_t>(k)];
      const std::uint8_t* source = from + static_cast<std::size_t>(room.rows.first[row] + k) * in.width;
      float* const line = room.line.data();
      for (int x = 0; x < in.width; ++x) line[x] += weight * static_cast<float>(source[x]);
    }
    for (int x = 0; x < out.width; ++x) {
      const auto column = static_cast<std::size_t>(x);
      const float* weights =
          room.columns.weights.data() + column * static_cast<std::size_t>(room.columns.most);
      const float* line = room.line.data() + room.columns.first[column];
      float sum = 0;
      for (int k = 0; k < room.columns.count[column]; ++k) sum += weights[k] * line[k];
      to[row * static_cast<std::size_t>(out.width) + column] = rounded(sum);
    }
  }
}

}  // namespace

std::vector<Transform> parseTransforms(std::string_view text) {
  std::vector<Transform> transforms;
  text = trimmed(text);
  if (text.empty() || text == "none") return transforms;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    transforms.push_back(parseStep(trimmed(text.substr(at, comma - at))));
    at = comma + 1;
  }
  return transforms;
}

std::string toText(const std::vector<Transform>& transforms) {
  std::string text;
  for (const Transform& transform : transforms) text += (text.empty() ? "" : ",") + textOf(transform);
  return text.empty() ? "none" : text;
}

SampleShape shapeAfter(const std::vector<Transform>& transforms, SampleShape shape) {
  for (const Transform& transform : transforms) {
    const auto crop = [&](int size) {
      if (shape.height != 0 && (shape.height < size || shape.width < size)) {
        throw UsageError(
            fmt::format("--transforms: {} needs images of at least {}x{} pixels, but they are {}x{} there; "
                        "put a resize before it",
                        textOf(transform), size, size, shape.height, shape.width));
      }
      shape.height = shape.width = size;
    };
    std::visit(
        Overloaded{[&](const ResizeShorter& t) {
                     if (shape.height != 0) shape = resizedShorter(shape, t.size);
                   },
                   [&](const ResizeTo& t) {
                     shape = {shape.channels, t.height, t.width};
                   },
                   [&](const CenterCrop& t) { crop(t.size); }, [&](const RandomCrop& t) { crop(t.size); },
                   [](const PadCrop&) {}, [](const Flip&) {}},
        transform);
  }
  return shape;
}

ImageRequest requestFor(const std::vector<Transform>& transforms, int channels) {
  ImageRequest request{.channels = channels};
  for (const Transform& transform : transforms) {
    if (const auto* shorter = std::get_if<ResizeShorter>(&transform)) {
      request.height = request.width = shorter->size;
      return request;
    }
    if (const auto* exact = std::get_if<ResizeTo>(&transform)) {
      request.height = exact->height;
      request.width = exact->width;
      return request;
    }
    // Mirroring does not care how many pixels there are; whatever counts them does.
    if (!std::holds_alternative<Flip>(transform)) return request;
  }
  return request;
}

TransformList::TransformList(std::vector<Transform> transforms, std::optional<std::uint64_t> seed)
    : transforms_(std::move(transforms)), seed_(seed) {}

void TransformList::apply(Image& image, Image& spare, std::int64_t position) const {
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const Transform& transform = transforms_[i];
    PhiloxBlock random{};
    if (seed_) {
      const PhiloxKey key = philoxKey(*seed_, hashName("augmentation") + i);
      const auto p = static_cast<std::uint64_t>(position);
      random = philox(key, {static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32), 0, 0});
    }
    const SampleShape shape = image.shape;
    const auto crop = [&](int size, bool somewhere) {
      const int down = shape.height - size;
      const int across = shape.width - size;
      if (down < 0 || across < 0) {
        throw IoError(fmt::format("{}x{} pixels are too few for {}; put a resize before it.", shape.height,
                                  shape.width, textOf(transform)));
      }
      spare.reshape({shape.channels, size, size});
      copyWindow(image, somewhere ? below(random[0], down + 1) : down / 2,
                 somewhere ? below(random[1], across + 1) : across / 2, spare);
      std::swap(image, spare);
    };
    const auto resize = [&](SampleShape to) {
      if (to == shape) return;
      resizeImage(image, to.height, to.width, spare);
      std::swap(image, spare);
    };
    std::visit(Overloaded{[&](const ResizeShorter& t) { resize(resizedShorter(shape, t.size)); },
                          [&](const ResizeTo& t) {
                            resize({shape.channels, t.height, t.width});
                          },
                          [&](const CenterCrop& t) { crop(t.size, false); },
                          [&](const RandomCrop& t) { crop(t.size, seed_.has_value()); },
                          [&](const PadCrop& t) {
                            if (!seed_) return;
                            spare.reshape(shape);
                            copyWindow(image, below(random[0], 2 * t.padding + 1) - t.padding,
                                       below(random[1], 2 * t.padding + 1) - t.padding, spare);
                            std::swap(image, spare);
                          },
                          [&](const Flip&) {
                            if (seed_ && (random[0] & 1u) != 0) mirror(image);
                          }},
               transform);
  }
}

void resizeImage(const Image& from, int height, int width, Image& to) {
  static thread_local ResizeRoom room;
  planTaps(from.shape.height, height, room.rows);
  planTaps(from.shape.width, width, room.columns);
  to.reshape({from.shape.channels, height, width});
  const std::size_t inPlane = static_cast<std::size_t>(from.shape.height) * from.shape.width;
  const std::size_t outPlane = static_cast<std::size_t>(height) * width;
  for (int c = 0; c < from.shape.channels; ++c) {
    resizePlane(from.pixels.data() + c * inPlane, from.shape, to.shape, room,
                to.pixels.data() + c * outPlane);
  }
}

}  // namespace cohort
