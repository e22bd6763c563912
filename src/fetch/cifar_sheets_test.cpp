#include "fetch/cifar_sheets.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/test_directory.h"
#include "data/image_codec.h"
#include "fetch/failure.h"
#include "fetch/test_archives.h"

namespace cohort {
namespace {

// [channel][image][pixel], each value different from its neighbours in every direction.
std::uint8_t valueAt(std::size_t channel, std::size_t image, std::size_t pixel) {
  return static_cast<std::uint8_t>(channel * 85 + image * 31 + pixel * 7);
}

std::string sheetOf(int images, int pixels) {
  Image sheet;
  sheet.reshape({.channels = 3, .height = images, .width = pixels});
  std::size_t at = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t image = 0; image < static_cast<std::size_t>(images); ++image) {
      for (std::size_t pixel = 0; pixel < static_cast<std::size_t>(pixels); ++pixel) {
        sheet.pixels[at++] = valueAt(channel, image, pixel);
      }
    }
  }
  return encodePng(sheet);
}

TEST(CifarSheets, BecomeRecordsOfALabelAndThreePlanes) {
  const TestDirectory folder;
  writeTestFile(folder / "sheet.png", sheetOf(3, 1024));
  const std::vector<std::uint8_t> labels = {7, 0, 9, 1};
  EXPECT_EQ(convertSheet(folder / "sheet.png", labels, folder / "records"), 3u);
  const std::string records = readWholeFile(folder / "records");
  ASSERT_EQ(records.size(), 3u * 3073);
  for (std::size_t image = 0; image < 3; ++image) {
    EXPECT_EQ(records[image * 3073], static_cast<char>(labels[image]));
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t pixel = 0; pixel < 1024; ++pixel) {
        ASSERT_EQ(static_cast<std::uint8_t>(records[image * 3073 + 1 + channel * 1024 + pixel]),
                  valueAt(channel, image, pixel));
      }
    }
  }
}

TEST(CifarSheets, OfAnotherWidthOrWithoutLabelsAreRefused) {
  const TestDirectory folder;
  writeTestFile(folder / "sheet.png", sheetOf(2, 1000));
  const std::vector<std::uint8_t> labels = {1, 2};
  EXPECT_THROW(convertSheet(folder / "sheet.png", labels, folder / "records"), Damaged);
  writeTestFile(folder / "sheet.png", sheetOf(3, 1024));
  EXPECT_THROW(convertSheet(folder / "sheet.png", labels, folder / "records"), Damaged);
  EXPECT_FALSE(std::filesystem::exists(folder / "records"));
}

TEST(CifarSheets, HaveLabelsFromZeroToNine) {
  const TestDirectory folder;
  const auto labels = [&](const std::string& json) {
    writeTestFile(folder / "labels.json", json);
    return readSheetLabels(folder / "labels.json");
  };
  EXPECT_EQ(labels("[0, 9,3]"), (std::vector<std::uint8_t>{0, 9, 3}));
  for (const std::string wrong : {"[0,10]", "[-1]", "[1.5]", "[\"1\"]", "{\"a\":1}", "[1,", "", "[[1]]"}) {
    EXPECT_THROW(labels(wrong), Damaged) << wrong;
  }
}

}  // namespace
}  // namespace cohort
