#include "data/transform.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "data/image_vectors.h"

namespace cohort {
namespace {

// Pixel (c, y, x) is unique below 256 for up to 3x8x8.
Image numbered(SampleShape shape) {
  Image image;
  ComputedImages(1, shape, 1, [&](std::int64_t, int c, int y, int x) {
    return 1 + (c * shape.height + y) * shape.width + x;
  }).read(0, {}, image);
  return image;
}

Image applied(const std::string& text, Image image, std::optional<std::uint64_t> seed = std::nullopt,
              std::int64_t position = 0) {
  Image spare;
  TransformList(parseTransforms(text), seed).apply(image, spare, position);
  return image;
}

std::string refusal(const std::string& text) {
  return errorOf<UsageError>([&] { parseTransforms(text); });
}

TEST(Transforms, AreReadAndWrittenAsText) {
  for (const char* text : {"none", "flip", "resize:256,random-crop:224,flip", "resize:24x32,center-crop:24",
                           "pad-crop:4,flip"}) {
    EXPECT_EQ(toText(parseTransforms(text)), text);
  }
  EXPECT_EQ(toText(parseTransforms("")), "none");
  EXPECT_EQ(toText(parseTransforms(" resize:8 , flip ")), "resize:8,flip");
}

TEST(Transforms, ThatDoNotExistAreRefusedWithTheNearest) {
  EXPECT_MENTIONS(refusal("centre-crop:24"), "did you mean center-crop?");
  for (const char* text :
       {"crop", "resize", "resize:", "resize:-3", "resize:3x", "resize:0", "resize:99999999", "flip:2",
        "flip,,flip", "flip,", "pad-crop:1e3", "random-crop:3.5"}) {
    EXPECT_NE(refusal(text), "no error") << text;
  }
}

TEST(Transforms, KnowTheSizeThatComesOut) {
  const auto after = [](const char* text, SampleShape shape) {
    return shapeAfter(parseTransforms(text), shape);
  };
  EXPECT_EQ(after("none", {3, 5, 6}), (SampleShape{3, 5, 6}));
  EXPECT_EQ(after("resize:10", {3, 20, 30}), (SampleShape{3, 10, 15}));
  EXPECT_EQ(after("resize:10", {3, 30, 20}), (SampleShape{3, 15, 10}));
  EXPECT_EQ(after("resize:10", {3, 0, 0}), (SampleShape{3, 0, 0}));
  EXPECT_EQ(after("resize:10,random-crop:8,flip", {3, 0, 0}), (SampleShape{3, 8, 8}));
  EXPECT_EQ(after("resize:4x6", {1, 0, 0}), (SampleShape{1, 4, 6}));
  EXPECT_EQ(after("pad-crop:4", {3, 32, 32}), (SampleShape{3, 32, 32}));
  EXPECT_THROW(after("center-crop:33", {3, 32, 40}), UsageError);
}

TEST(Transforms, AskADecoderForNoMoreThanTheyNeed) {
  const auto request = [](const char* text) { return requestFor(parseTransforms(text), 3); };
  EXPECT_EQ(request("resize:256,random-crop:224").height, 256);
  EXPECT_EQ(request("flip,resize:30x40").width, 40);
  EXPECT_EQ(request("random-crop:224").height, 0);  // cuts into the full image
  EXPECT_EQ(request("pad-crop:4,resize:8").height, 0);
}

TEST(CenterCrop, TakesTheMiddle) {
  const Image image = applied("center-crop:2", numbered({2, 4, 6}));
  EXPECT_EQ(image.shape, (SampleShape{2, 2, 2}));
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{9, 10, 15, 16, 33, 34, 39, 40}));
}

TEST(RandomCrop, TakesEveryPlaceAndInEvaluationTheMiddle) {
  const Image whole = numbered({1, 4, 5});
  std::map<int, int> corners;
  for (std::int64_t p = 0; p < 3000; ++p) {
    const Image image = applied("random-crop:3", whole, 7, p);
    ASSERT_EQ(image.shape, (SampleShape{1, 3, 3}));
    for (std::size_t y = 0; y < 3; ++y) {
      for (std::size_t x = 0; x < 3; ++x) {
        ASSERT_EQ(image.pixels[y * 3 + x], image.pixels[0] + y * 5 + x);  // one window of the image
      }
    }
    ++corners[image.pixels[0]];
  }
  ASSERT_EQ(corners.size(), 6u);  // two rows, three columns
  for (const auto& [corner, times] : corners) EXPECT_NEAR(times, 500, 100) << corner;
  EXPECT_EQ(applied("random-crop:3", whole).pixels, applied("center-crop:3", whole).pixels);
}

TEST(PadCrop, ShiftsWithBlackAndInEvaluationNothing) {
  const Image whole = numbered({1, 3, 3});
  std::set<std::string> seen;
  for (std::int64_t p = 0; p < 1000; ++p) {
    const Image image = applied("pad-crop:1", whole, 7, p);
    ASSERT_EQ(image.shape, whole.shape);
    seen.emplace(image.pixels.begin(), image.pixels.end());
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_TRUE(seen.contains(std::string(whole.pixels.begin(), whole.pixels.end())));
  EXPECT_TRUE(seen.contains(std::string("\0\0\0\0\1\2\0\4\5", 9)));
  EXPECT_TRUE(seen.contains(std::string("\5\6\0\x8\x9\0\0\0\0", 9)));
  EXPECT_EQ(applied("pad-crop:1", whole).pixels, whole.pixels);
  // More padding than image: all black is possible, nothing is read outside.
  applied("pad-crop:100", whole, 7, 3);
}

TEST(Flip, MirrorsEverySecondSample) {
  const Image whole = numbered({2, 2, 3});
  const std::vector<std::uint8_t> mirrored{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10};
  int flipped = 0;
  for (std::int64_t p = 0; p < 1000; ++p) {
    const Image image = applied("flip", whole, 7, p);
    if (image.pixels == mirrored) {
      ++flipped;
    } else {
      ASSERT_EQ(image.pixels, whole.pixels);
    }
  }
  EXPECT_NEAR(flipped, 500, 60);
  EXPECT_EQ(applied("flip", whole).pixels, whole.pixels);
}

TEST(Transforms, AreAFunctionOfSeedPlaceAndPosition) {
  const Image whole = numbered({3, 8, 8});
  const auto run = [&](const char* text, std::uint64_t seed) {
    std::vector<std::vector<std::uint8_t>> images;
    for (std::int64_t p = 0; p < 50; ++p) images.push_back(applied(text, whole, seed, p).pixels);
    return images;
  };
  EXPECT_EQ(run("pad-crop:3,flip", 1), run("pad-crop:3,flip", 1));
  EXPECT_NE(run("pad-crop:3,flip", 1), run("pad-crop:3,flip", 2));
  // Two steps of one kind do not do the same.
  int twice = 0;
  for (std::int64_t p = 0; p < 200; ++p)
    twice += applied("flip,flip", whole, 1, p).pixels == whole.pixels ? 1 : 0;
  EXPECT_NEAR(twice, 100, 40);
}

TEST(Transforms, RefuseAnImageThatIsTooSmallForACrop) {
  EXPECT_EQ(errorOf<IoError>([&] {
              applied("random-crop:5", numbered({1, 4, 8}), 1);
            }),
            "4x8 pixels are too few for random-crop:5; put a resize before it.");
}

TEST(Resize, KeepsWhatItDoesNotChange) {
  const Image whole = numbered({3, 5, 7});
  EXPECT_EQ(applied("resize:5x7", whole).pixels, whole.pixels);
  EXPECT_EQ(applied("resize:5", whole).pixels, whole.pixels);
  Image same;
  resizeImage(whole, 5, 7, same);
  EXPECT_EQ(same.pixels, whole.pixels);
}

TEST(Resize, AveragesWhereItShrinksByWholeFactors) {
  Image image;
  image.reshape({1, 2, 4});
  image.pixels = {0, 0, 200, 200, 0, 0, 200, 200};
  Image half;
  resizeImage(image, 1, 2, half);
  EXPECT_EQ(half.shape, (SampleShape{1, 1, 2}));
  // A triangle of two pixels' reach: 1/8, 3/8, 3/8, 1/8, of which the outer one on the left has no pixel.
  EXPECT_EQ(half.pixels[0], 29);
  EXPECT_EQ(half.pixels[1], 171);
}

TEST(Resize, InterpolatesWhereItGrows) {
  Image image;
  image.reshape({1, 1, 2});
  image.pixels = {0, 100};
  Image wide;
  resizeImage(image, 1, 4, wide);
  EXPECT_EQ(wide.pixels, (std::vector<std::uint8_t>{0, 25, 75, 100}));
}

TEST(Resize, OfAGradientStaysAGradient) {
  Image image;
  ComputedImages(1, {1, 64, 97}, 1, [](std::int64_t, int, int y, int x) { return y + x; }).read(0, {}, image);
  Image small;
  resizeImage(image, 20, 31, small);
  for (int y = 2; y < 18; ++y) {
    for (int x = 2; x < 29; ++x) {
      const double expected = (y + 0.5) * 64 / 20 - 0.5 + (x + 0.5) * 97 / 31 - 0.5;
      EXPECT_NEAR(small.pixels[static_cast<std::size_t>(y * 31 + x)], expected, 1.0);
    }
  }
}

}  // namespace
}  // namespace cohort
