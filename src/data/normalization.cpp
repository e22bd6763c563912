#include "data/normalization.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// "0.49,0.48,0.45"
std::vector<float> parseList(std::string_view text, const std::string& whole) {
  std::vector<float> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    float value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || end != item.data() + item.size() || !std::isfinite(value)) {
      throw UsageError(fmt::format("--normalize: '{}' in '{}' is no number", item, whole));
    }
    values.push_back(value);
    at = comma + 1;
  }
  return values;
}

// Exact sums of bytes, so that neither order nor threads can change them.
struct Sums {
  std::vector<std::uint64_t> perPixel;  // [channels, height, width]
  std::vector<std::uint64_t> squares;   // per channel
};

// What the statistics depend on: every name and label, the transforms, and the pixels of some images.
class Fingerprint {
 public:
  void add(std::string_view text) { hash_ = hashName(fmt::format("{:016x}{}", hash_, text)); }
  void add(const Image& image) {
    add({reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()});
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0;
};

std::string fingerprint(const ImageSet& set, const std::vector<Transform>& transforms, SampleShape shape) {
  constexpr std::int64_t kLookedAt = 64;
  Fingerprint print;
  print.add(fmt::format("1 {} {}x{}x{}", toText(transforms), shape.channels, shape.height, shape.width));
  for (std::int64_t i = 0; i < set.size(); ++i) print.add(fmt::format("{} {}", set.label(i), set.nameOf(i)));
  Image image;
  const std::int64_t step = std::max<std::int64_t>(1, set.size() / kLookedAt);
  for (std::int64_t i = 0; i < set.size(); i += step) {
    set.read(i, requestFor(transforms, shape.channels), image);
    print.add(image);
  }
  return print.text();
}

Sums sumImages(const ImageSet& set, const std::vector<Transform>& transforms, SampleShape shape,
               std::int64_t step) {
  Sums sums{.perPixel = std::vector<std::uint64_t>(shape.count()),
            .squares = std::vector<std::uint64_t>(static_cast<std::size_t>(shape.channels))};
  const TransformList list(transforms, std::nullopt);
  const std::size_t plane = shape.count() / static_cast<std::size_t>(shape.channels);
  Image image;
  Image spare;
  for (std::int64_t i = 0; i < set.size(); i += step) {
    set.read(i, requestFor(transforms, shape.channels), image);
    list.apply(image, spare, 0);
    COHORT_CHECK(image.shape == shape, "the image does not fit");
    for (std::size_t p = 0; p < image.pixels.size(); ++p) sums.perPixel[p] += image.pixels[p];
    for (std::size_t c = 0; c < sums.squares.size(); ++c) {
      std::uint64_t squares = 0;
      for (std::size_t p = c * plane; p < (c + 1) * plane; ++p) {
        squares += std::uint64_t{image.pixels[p]} * image.pixels[p];
      }
      sums.squares[c] += squares;
    }
  }
  return sums;
}

MeasuredStatistics statisticsOf(const Sums& sums, SampleShape shape, std::int64_t images) {
  MeasuredStatistics result;
  const std::size_t plane = shape.count() / static_cast<std::size_t>(shape.channels);
  const double pixels = static_cast<double>(plane) * static_cast<double>(images);
  for (std::size_t c = 0; c < sums.squares.size(); ++c) {
    std::uint64_t sum = 0;
    for (std::size_t p = c * plane; p < (c + 1) * plane; ++p) sum += sums.perPixel[p];
    const double mean = static_cast<double>(sum) / pixels;
    const double variance = static_cast<double>(sums.squares[c]) / pixels - mean * mean;
    result.channels.mean.push_back(static_cast<float>(mean / 255));
    // A set of equal pixels has nothing to scale.
    result.channels.standardDeviation.push_back(
        static_cast<float>(std::max(std::sqrt(std::max(variance, 0.0)), 1.0) / 255));
  }
  for (const std::uint64_t sum : sums.perPixel) {
    result.meanImage.push_back(
        static_cast<float>(static_cast<double>(sum) / static_cast<double>(images) / 255));
  }
  return result;
}

std::optional<MeasuredStatistics> readCached(const fs::path& path, SampleShape shape) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(readWholeFile(path));
    MeasuredStatistics result;
    json.at("mean").get_to(result.channels.mean);
    json.at("standard_deviation").get_to(result.channels.standardDeviation);
    json.at("mean_image").get_to(result.meanImage);
    const bool fits = result.meanImage.size() == shape.count() &&
                      result.channels.mean.size() == static_cast<std::size_t>(shape.channels) &&
                      result.channels.standardDeviation.size() == result.channels.mean.size();
    if (fits) return result;
  } catch (const nlohmann::json::exception&) {
    // Not what was written: measured anew and replaced.
  } catch (const IoError&) {
    // Not readable: measured anew.
  }
  return std::nullopt;
}

void writeCached(const fs::path& path, const MeasuredStatistics& statistics) {
  try {
    fs::create_directories(path.parent_path());
    writeWholeFile(path, nlohmann::json{{"mean", statistics.channels.mean},
                                        {"standard_deviation", statistics.channels.standardDeviation},
                                        {"mean_image", statistics.meanImage}}
                                 .dump() +
                             "\n");
  } catch (const std::exception&) {
    // A cache that cannot be written costs time, not results.
  }
}

}  // namespace

NormalizationChoice parseNormalization(const std::string& text) {
  using Kind = NormalizationChoice::Kind;
  if (text.empty() || text == "dataset") return {.kind = Kind::Dataset};
  if (text == "measured") return {.kind = Kind::Measured};
  if (text == "mean-image") return {.kind = Kind::MeanImage};
  if (text == "image") return {.kind = Kind::Image};
  if (text == "none") return {.kind = Kind::None};
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    throw UsageError(
        fmt::format("--normalize is dataset, measured, mean-image, image, none or MEAN/STD, not '{}'", text));
  }
  NormalizationChoice choice{.kind = Kind::Given};
  choice.given.mean = parseList(text.substr(0, slash), text);
  choice.given.standardDeviation = parseList(text.substr(slash + 1), text);
  if (choice.given.mean.size() != choice.given.standardDeviation.size()) {
    throw UsageError(fmt::format("--normalize: '{}' must have as many means as standard deviations", text));
  }
  if (std::ranges::any_of(choice.given.standardDeviation, [](float s) { return s <= 0; })) {
    throw UsageError(fmt::format("--normalize: the standard deviations in '{}' must be above 0", text));
  }
  return choice;
}

MeasuredStatistics measureStatistics(const ImageSet& training, const std::vector<Transform>& transforms,
                                     SampleShape shape, const fs::path& cacheDirectory) {
  fs::path cached;
  if (!cacheDirectory.empty()) {
    cached = cacheDirectory / fmt::format("statistics-{}.json", fingerprint(training, transforms, shape));
    if (auto found = readCached(cached, shape)) return *std::move(found);
  }
  const std::int64_t step = (training.size() + kMostMeasured - 1) / kMostMeasured;
  MeasuredStatistics result =
      statisticsOf(sumImages(training, transforms, shape, step), shape, (training.size() + step - 1) / step);
  if (!cached.empty()) writeCached(cached, result);
  return result;
}

Normalization Normalization::byChannel(const ChannelStatistics& statistics) {
  Normalization result;
  for (std::size_t c = 0; c < statistics.mean.size(); ++c) {
    result.scale_.push_back(1.0f / (255.0f * statistics.standardDeviation[c]));
    result.offset_.push_back(-statistics.mean[c] / statistics.standardDeviation[c]);
  }
  return result;
}

Normalization Normalization::byMeanImage(const MeasuredStatistics& statistics) {
  Normalization result = byChannel(statistics.channels);
  const std::size_t plane = statistics.meanImage.size() / result.scale_.size();
  for (std::size_t p = 0; p < statistics.meanImage.size(); ++p) {
    result.offsets_.push_back(-statistics.meanImage[p] / statistics.channels.standardDeviation[p / plane]);
  }
  return result;
}

Normalization Normalization::byImage() {
  return {};
}

void Normalization::apply(const Image& image, std::span<float> out) const {
  COHORT_CHECK(image.pixels.size() == out.size(), "the image does not fit");
  const std::uint8_t* const from = image.pixels.data();
  float* const to = out.data();
  const std::size_t count = out.size();
  if (scale_.empty()) {
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
    for (std::size_t p = 0; p < count; ++p) {
      sum += from[p];
      squares += std::uint64_t{from[p]} * from[p];
    }
    const auto n = static_cast<double>(count);
    const double mean = static_cast<double>(sum) / n;
    const double variance = static_cast<double>(squares) / n - mean * mean;
    const double deviation = std::max(std::sqrt(std::max(variance, 0.0)), 1.0);
    const auto scale = static_cast<float>(1.0 / deviation);
    const auto offset = static_cast<float>(-mean / deviation);
    for (std::size_t p = 0; p < count; ++p) to[p] = static_cast<float>(from[p]) * scale + offset;
    return;
  }
  const std::size_t plane = count / scale_.size();
  for (std::size_t c = 0; c < scale_.size(); ++c) {
    const float scale = scale_[c];
    const std::size_t end = (c + 1) * plane;
    if (offsets_.empty()) {
      const float offset = offset_[c];
      for (std::size_t p = c * plane; p < end; ++p) to[p] = static_cast<float>(from[p]) * scale + offset;
    } else {
      const float* const offsets = offsets_.data();
      for (std::size_t p = c * plane; p < end; ++p) to[p] = static_cast<float>(from[p]) * scale + offsets[p];
    }
  }
}

}  // namespace cohort
