#include "data/contact_sheet.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/image_folder.h"
#include "data/test_images.h"

namespace cohort {
namespace {

// Image i has class i mod classes and the value i in all its pixels.
class PlainSet final : public ImageSet {
 public:
  PlainSet(int classes, std::int64_t size, SampleShape shape) : size_(size), shape_(shape) {
    for (int i = 0; i < classes; ++i) classes_.push_back(std::to_string(i));
  }

  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  const std::vector<std::string>& classNames() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(static_cast<std::size_t>(index) % classes_.size());
  }
  std::string nameOf(std::int64_t index) const override { return std::to_string(index); }
  void read(std::int64_t index, const ImageRequest& /*request*/, Image& image) const override {
    image.reshape(shape_);
    std::fill(image.pixels.begin(), image.pixels.end(), static_cast<std::uint8_t>(index));
  }

 private:
  std::int64_t size_;
  SampleShape shape_;
  std::vector<std::string> classes_;
};

// One image, whatever it is.
class OneImage final : public ImageSet {
 public:
  explicit OneImage(Image image) : image_(std::move(image)) {}

  std::int64_t size() const override { return 1; }
  SampleShape shape() const override { return image_.shape; }
  const std::vector<std::string>& classNames() const override { return classes_; }
  std::int32_t label(std::int64_t /*index*/) const override { return 0; }
  std::string nameOf(std::int64_t /*index*/) const override { return "x"; }
  void read(std::int64_t /*index*/, const ImageRequest& /*request*/, Image& image) const override {
    image = image_;
  }

 private:
  Image image_;
  std::vector<std::string> classes_{"only"};
};

int pixel(const Image& image, int channel, int y, int x) {
  return image.pixels[(static_cast<std::size_t>(channel) * static_cast<std::size_t>(image.shape.height) +
                       static_cast<std::size_t>(y)) *
                          static_cast<std::size_t>(image.shape.width) +
                      static_cast<std::size_t>(x)];
}

Image greyImage(int height, int width, std::vector<std::uint8_t> pixels) {
  return {.shape = {.channels = 1, .height = height, .width = width}, .pixels = std::move(pixels)};
}

TEST(ContactSheet, HasARowForEachClassAndSamplesSpreadOverIt) {
  const PlainSet set(3, 120, {.channels = 3, .height = 10, .width = 10});
  const Image sheet = contactSheet(set, {.rows = 5, .columns = 4, .cell = 10, .margin = 2});
  ASSERT_EQ(sheet.shape, (SampleShape{3, 3 * 12 + 2, 4 * 12 + 2}));
  // Class r has the images r, r + 3, r + 6, …, 40 of them; every tenth is shown.
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      for (int channel = 0; channel < 3; ++channel) {
        EXPECT_EQ(pixel(sheet, channel, 2 + 12 * row, 2 + 12 * column), row + 30 * column);
        EXPECT_EQ(pixel(sheet, channel, 11 + 12 * row, 11 + 12 * column), row + 30 * column);
      }
    }
  }
  for (int x = 0; x < sheet.shape.width; ++x) {
    EXPECT_EQ(pixel(sheet, 1, 0, x), 255);
    EXPECT_EQ(pixel(sheet, 1, 12, x), 255);
    EXPECT_EQ(pixel(sheet, 1, 37, x), 255);
  }
}

TEST(ContactSheet, HasNoMoreRowsAndColumnsThanAskedForOrNeeded) {
  const PlainSet many(100, 1000, {.channels = 1, .height = 5, .width = 5});
  EXPECT_EQ(contactSheet(many, {.rows = 7, .columns = 20, .cell = 8, .margin = 1}).shape,
            (SampleShape{1, 7 * 9 + 1, 10 * 9 + 1}));
  const PlainSet few(2, 3, {.channels = 1, .height = 5, .width = 5});
  const Image sheet = contactSheet(few, {.rows = 7, .columns = 20, .cell = 5, .margin = 1});
  EXPECT_EQ(sheet.shape, (SampleShape{1, 13, 13}));
  EXPECT_EQ(pixel(sheet, 0, 1, 7), 2);    // the second of class 0
  EXPECT_EQ(pixel(sheet, 0, 7, 7), 255);  // class 1 has none
}

TEST(ContactSheet, MagnifiesSmallImagesByAWholeNumber) {
  const OneImage set(greyImage(2, 3, {10, 20, 30, 40, 50, 60}));
  const Image sheet = contactSheet(set, {.cell = 11, .margin = 0});
  ASSERT_EQ(sheet.shape, (SampleShape{1, 11, 11}));
  // Three times: 6 x 9, in the middle of 11 x 11.
  for (int y = 0; y < 11; ++y) {
    for (int x = 0; x < 11; ++x) {
      const bool inside = y >= 2 && y < 8 && x >= 1 && x < 10;
      const int expected = inside ? 10 * (1 + (x - 1) / 3 + 3 * ((y - 2) / 3)) : 255;
      EXPECT_EQ(pixel(sheet, 0, y, x), expected) << y << ", " << x;
    }
  }
}

TEST(ContactSheet, KeepsImagesThatNearlyFillACell) {
  const Image image = smoothImage({.channels = 1, .height = 9, .width = 8});
  const Image sheet = contactSheet(OneImage(image), {.cell = 10, .margin = 0});
  EXPECT_EQ(pixel(sheet, 0, 0, 1), pixel(image, 0, 0, 0));
  EXPECT_EQ(pixel(sheet, 0, 8, 8), pixel(image, 0, 8, 7));
  EXPECT_EQ(pixel(sheet, 0, 9, 5), 255);
}

TEST(ContactSheet, ShrinksLargeImagesToTheMeanOfWhatEachPixelCovers) {
  const OneImage set(greyImage(2, 6, {0, 100, 200, 10, 20, 30, 50, 50, 0, 10, 20, 31}));
  const Image sheet = contactSheet(set, {.cell = 4, .margin = 0});
  // 2 x 6 becomes 1 x 4 (4 / 3 rounded): each pixel covers both rows and one and a half columns.
  ASSERT_EQ(sheet.shape, (SampleShape{1, 4, 4}));
  EXPECT_EQ(pixel(sheet, 0, 0, 0), 255);
  EXPECT_EQ(pixel(sheet, 0, 1, 0), 42);  // (0 + 50 + (100 + 50) / 2) / 3 = 41.67
  EXPECT_EQ(pixel(sheet, 0, 1, 1), 92);  // ((100 + 50) / 2 + 200 + 0) / 3 = 91.67
  EXPECT_EQ(pixel(sheet, 0, 1, 2), 13);  // (10 + 10 + (20 + 20) / 2) / 3 = 13.33
  EXPECT_EQ(pixel(sheet, 0, 1, 3), 27);  // ((20 + 20) / 2 + 30 + 31) / 3 = 27
  EXPECT_EQ(pixel(sheet, 0, 2, 0), 255);
}

TEST(ContactSheet, ShowsLongThinImages) {
  const Image sheet = contactSheet(OneImage(smoothImage({.channels = 3, .height = 1, .width = 500})),
                                   {.cell = 20, .margin = 0});
  EXPECT_EQ(sheet.shape, (SampleShape{3, 20, 20}));
  EXPECT_NE(pixel(sheet, 0, 9, 0), 255);
  EXPECT_EQ(pixel(sheet, 0, 10, 0), 255);
}

TEST(ContactSheet, OfPhotographsCanBeWrittenAndReadAgain) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const auto set = openImageFolder(std::filesystem::path(vectors) / "flowers", Split::Train);
  const Image sheet = contactSheet(*set);
  EXPECT_EQ(sheet.shape, (SampleShape{3, 5 * 68 + 4, 12 * 68 + 4}));
  const std::string file = encodePng(sheet);
  Image again;
  decodeImage(std::as_bytes(std::span(file)), "sheet", {}, again);
  EXPECT_EQ(again.pixels, sheet.pixels);
}

}  // namespace
}  // namespace cohort
