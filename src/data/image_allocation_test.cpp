// In a file of its own: it replaces the allocation functions of the whole test program.
#include <string>

#include <gtest/gtest.h>

#include "base/test_allocations.h"
#include "base/test_directory.h"
#include "data/image_folder.h"
#include "data/packed_images.h"
#include "data/test_images.h"

namespace cohort {
namespace {

// The libraries take memory of their own for an image and give it back; ours is taken once.
TEST(ReadingImages, AllocatesOnlyForImagesLargerThanAllBefore) {
  const TestDirectory directory;
  const std::filesystem::path source = directory / "images";
  std::filesystem::create_directories(source / "a class with a long name");
  for (int i = 0; i < 3; ++i) {
    const Image image = smoothImage({.channels = 3, .height = 40 - i, .width = 60 - i}, i);
    const std::string name = "an image with a long name " + std::to_string(i);
    writeTestFile(source / "a class with a long name" / (name + ".jpg"), jpegOf(image));
    writeTestFile(source / "a class with a long name" / (name + ".png"), encodePng(image));
  }
  packImages([&](Split split) { return openImageFolder(source, split); }, directory / "images.pack");
  const auto folder = openImageFolder(source, Split::Train);
  const auto packed = openPackedImages(directory / "images.pack", Split::Train);
  for (const ImageSet* set : {folder.get(), packed.get()}) {
    const long atStart = allocations;
    Image image;
    for (const std::int64_t first : {0, 1}) set->read(first, {}, image);
    const long before = allocations;
    EXPECT_GT(before, atStart) << "the counter counts";
    for (std::int64_t i = 0; i < set->size(); ++i) {
      set->read(i, {}, image);
      set->read(i, {.channels = 1, .height = 9, .width = 9}, image);
    }
    EXPECT_EQ(allocations - before, 0);
  }
}

}  // namespace
}  // namespace cohort
