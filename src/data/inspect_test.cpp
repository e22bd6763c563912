#include "data/inspect.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/image_codec.h"

namespace cohort {
namespace {

std::string png(int height, int width) {
  Image image;
  image.reshape({3, height, width});
  return encodePng(image);
}

TEST(Inspect, CountsImagesAndSizes) {
  const TestDirectory directory;
  std::filesystem::create_directories(directory / "cat");
  std::filesystem::create_directories(directory / "dog");
  writeTestFile(directory / "cat" / "1.png", png(5, 9));
  writeTestFile(directory / "cat" / "2.png", png(7, 8));
  writeTestFile(directory / "dog" / "1.png", png(6, 20));
  const ImagesInfo info = inspectImages(directory.path());
  EXPECT_EQ(info.format, "JPEG and PNG files in class folders");
  EXPECT_EQ(info.classNames, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(info.splits.size(), 1u);
  EXPECT_EQ(info.splits[0].images, 3);
  EXPECT_EQ(info.splits[0].perClass, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(info.splits[0].smallest, (SampleShape{3, 5, 8}));
  EXPECT_EQ(info.splits[0].largest, (SampleShape{3, 7, 20}));
}

TEST(Inspect, FindsADamagedImage) {
  const TestDirectory directory;
  std::filesystem::create_directories(directory / "cat");
  writeTestFile(directory / "cat" / "1.png", png(5, 9));
  writeTestFile(directory / "cat" / "2.png", png(5, 9).substr(0, 60));
  EXPECT_MENTIONS(errorOf<IoError>([&] { inspectImages(directory.path()); }), "2.png");
}

TEST(Inspect, RefusesAPlaceWithoutImages) {
  const TestDirectory directory;
  EXPECT_THROW(inspectImages(directory.path()), UsageError);
  EXPECT_THROW(inspectImages(directory / "nowhere"), UsageError);
}

}  // namespace
}  // namespace cohort
