// How bytes become numbers of about zero mean and unit variance.
//
//   dataset     minus the training images' mean, by their standard deviation, per channel: known for the classic sets,
//               measured for others
//   measured    the same, always measured
//   mean-image  minus the training images' mean image, by the standard deviation per channel
//   image       minus the image's own mean, by its own standard deviation (at least that of one grey step)
//   none        a byte's 0..255 becomes 0..1
//   M/S         a given mean and standard deviation for black = 0, white = 1; per channel as M,M,M/S,S,S
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_set.h"
#include "data/transform.h"

namespace cohort {

struct ChannelStatistics {
  std::vector<float> mean;  // per channel, black = 0, white = 1
  std::vector<float> standardDeviation;
};

struct NormalizationChoice {
  enum class Kind { Dataset, Measured, MeanImage, Image, None, Given };
  Kind kind = Kind::Dataset;
  ChannelStatistics given{};
};
// "" is Dataset.
NormalizationChoice parseNormalization(const std::string& text);

// What is measured of a training set, after the transforms as in evaluation.
struct MeasuredStatistics {
  ChannelStatistics channels;
  std::vector<float> meanImage;  // [channels, height, width], black = 0, white = 1
};
// From at most this many images, spread evenly.
inline constexpr std::int64_t kMostMeasured = 10'000;
// Kept in `cacheDirectory` under a hash of the names, labels, some of the images and the transforms, and found there
// again; an empty path, or one that cannot be written, only means measuring again.
MeasuredStatistics measureStatistics(const ImageSet& training, const std::vector<Transform>& transforms,
                                     SampleShape shape, const std::filesystem::path& cacheDirectory);

// The decided arithmetic. Threads share it.
class Normalization {
 public:
  static Normalization byChannel(const ChannelStatistics& statistics);
  static Normalization byMeanImage(const MeasuredStatistics& statistics);
  static Normalization byImage();

  // `image` has as many pixels as `out`.
  void apply(const Image& image, std::span<float> out) const;

 private:
  // A value is byte * scale + offset, with an offset per channel or per pixel.
  std::vector<float> scale_;    // per channel; empty: from each image
  std::vector<float> offset_;   // per channel
  std::vector<float> offsets_;  // per pixel; empty: offset_
};

}  // namespace cohort
