#include "data/image_folder.h"

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/test_images.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  // Writes an image file, the kind by its name.
  void put(const std::string& name, int phase = 0) const {
    const Image image = smoothImage({.channels = 3, .height = 20, .width = 24}, phase);
    fs::create_directories((place_ / name).parent_path());
    writeTestFile(place_ / name, name.ends_with("png") ? encodePng(image) : jpegOf(image));
  }
  void putText(const std::string& name) const {
    fs::create_directories((place_ / name).parent_path());
    writeTestFile(place_ / name, "text");
  }

  std::vector<std::string> names(Split split = Split::Train) const {
    const auto set = openImageFolder(place_, split);
    std::vector<std::string> result;
    for (std::int64_t i = 0; set != nullptr && i < set->size(); ++i) result.push_back(set->nameOf(i));
    return result;
  }

  template <class Error>
  void expectRefused(const std::vector<std::string>& parts, Split split = Split::Train) const {
    const std::string message = errorOf<Error>([&] { openImageFolder(place_, split); });
    for (const std::string& part : parts) EXPECT_MENTIONS(message, part);
  }

  TestDirectory directory_;
  fs::path place_ = directory_ / "flowers";
};

using Names = std::vector<std::string>;

TEST_F(Folder, HasAClassForEachFolderInBytewiseOrder) {
  for (const char* name : {"b/2.jpg", "b/10.jpg", "a/x.png", "B/1.jpeg", "\xc3\xa4/1.jpg"}) put(name);
  EXPECT_TRUE(isImageFolder(place_));
  const auto set = openImageFolder(place_, Split::Train);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->classNames(), (Names{"B", "a", "b", "\xc3\xa4"}));
  EXPECT_EQ(names(), (Names{"B/1.jpeg", "a/x.png", "b/10.jpg", "b/2.jpg", "\xc3\xa4/1.jpg"}));
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < set->size(); ++i) labels.push_back(set->label(i));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 1, 2, 2, 3}));
  EXPECT_EQ(set->shape(), (SampleShape{3, 0, 0}));
  EXPECT_TRUE(set->orderedByClass());
  EXPECT_EQ(openImageFolder(place_, Split::Validation), nullptr);
  EXPECT_EQ(openImageFolder(place_, Split::Test), nullptr);
}

TEST_F(Folder, IgnoresWhatIsNoImage) {
  for (const char* name : {"a/1.JPG", "a/2.Jpeg", "a/3.PNG"}) put(name);
  for (const char* name : {"LICENSE.txt", ".DS_Store", "loose.jpg", "a/notes.txt", "a/.4.jpg", "a/jpg",
                           "a/.jpg", ".hidden/1.jpg"}) {
    putText(name);
  }
  fs::create_directories(place_ / "a" / "5.jpg");  // a folder
  EXPECT_EQ(names(), (Names{"a/1.JPG", "a/2.Jpeg", "a/3.PNG"}));
}

TEST_F(Folder, ReadsWhatTheFilesHold) {
  put("a/1.png", 10);
  put("b/2.jpg", 20);
  const auto set = openImageFolder(place_, Split::Train);
  Image image;
  set->read(0, {}, image);
  EXPECT_EQ(image.pixels, smoothImage(image.shape, 10).pixels);
  set->read(1, {}, image);
  EXPECT_LE(largestDifference(image, smoothImage({3, 20, 24}, 20)), 8);
  set->read(1, {.channels = 1, .height = 5, .width = 5}, image);
  EXPECT_EQ(image.shape, (SampleShape{1, 5, 6}));
  set->read(0, {.channels = 3}, image);  // the shorter file after the longer one
  EXPECT_EQ(image.pixels, smoothImage({3, 20, 24}, 10).pixels);
  std::string bytes = "before";
  ASSERT_TRUE(set->encoded(1, bytes));
  EXPECT_EQ(bytes, readWholeFile(place_ / "b" / "2.jpg"));
  ASSERT_TRUE(set->encoded(0, bytes));
  EXPECT_EQ(bytes, readWholeFile(place_ / "a" / "1.png"));
}

TEST_F(Folder, IsReadByManyThreadsAtOnce) {
  for (int i = 0; i < 5; ++i) put("a/" + std::to_string(i) + ".png", i);
  const auto set = openImageFolder(place_, Split::Train);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& mine : wrong) {
    threads.emplace_back([&] {
      Image image;
      for (int i = 0; i < 100; ++i) {
        set->read(i % 5, {}, image);
        if (image.pixels != smoothImage({3, 20, 24}, i % 5).pixels) ++mine;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(Folder, OfSplitsGivesEachItsOwn) {
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "val/a/2.jpg", "val/b/3.jpg", "test/a/4.jpg",
                           "test/b/5.jpg", "other/c/6.jpg"}) {
    put(name);
  }
  EXPECT_TRUE(isImageFolder(place_));
  EXPECT_EQ(names(Split::Train), (Names{"a/1.jpg", "b/1.jpg"}));
  EXPECT_EQ(names(Split::Validation), (Names{"a/2.jpg", "b/3.jpg"}));
  EXPECT_EQ(names(Split::Test), (Names{"a/4.jpg", "b/5.jpg"}));
  fs::rename(place_ / "val", place_ / "validation");
  EXPECT_EQ(names(Split::Validation), (Names{"a/2.jpg", "b/3.jpg"}));
  fs::remove_all(place_ / "validation");
  EXPECT_EQ(openImageFolder(place_, Split::Validation), nullptr);
  EXPECT_EQ(names(Split::Test).size(), 2u);
}

TEST_F(Folder, MayHaveAClassThatIsCalledTrain) {
  for (const char* name : {"car/1.jpg", "train/1.jpg", "test/1.jpg"}) put(name);
  EXPECT_EQ(names(), (Names{"car/1.jpg", "test/1.jpg", "train/1.jpg"}));
  EXPECT_EQ(openImageFolder(place_, Split::Test), nullptr);
}

TEST_F(Folder, WhoseSplitsDifferInTheirClassesIsRefused) {
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "val/a/2.jpg"}) put(name);
  for (const Split split : {Split::Train, Split::Validation}) {
    expectRefused<IoError>({(place_ / "train").string() + " has the class 'b'", "val"}, split);
  }
  for (const char* name : {"val/b/1.jpg", "val/aa/1.jpg"}) put(name);
  expectRefused<IoError>({(place_ / "val").string() + " has the class 'aa'", "same class folders"});
  fs::remove_all(place_ / "val" / "aa");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(Folder, WithTwoValidationSplitsIsRefused) {
  for (const char* name : {"train/a/1.jpg", "val/a/2.jpg", "validation/a/2.jpg"}) put(name);
  expectRefused<UsageError>({"validation and", "val both exist", "remove or rename one"}, Split::Validation);
}

TEST_F(Folder, WithoutClassesIsRefused) {
  EXPECT_FALSE(isImageFolder(place_));
  expectRefused<UsageError>({place_.string(), "is not a folder"});
  fs::create_directories(place_);
  EXPECT_FALSE(isImageFolder(place_));
  expectRefused<UsageError>({place_.string(), "has no class folders"});
  put("loose.jpg");
  EXPECT_FALSE(isImageFolder(place_));
  expectRefused<UsageError>({place_.string(), "has no class folders"});
  EXPECT_FALSE(isImageFolder(place_ / "loose.jpg"));
}

TEST_F(Folder, WhoseSplitHasNoClassesIsRefused) {
  for (const char* name : {"train/a/1.jpg", "test/1.jpg"}) put(name);
  expectRefused<UsageError>({(place_ / "test").string(), "has no class folders"}, Split::Test);
}

TEST_F(Folder, WithAnEmptyClassIsRefused) {
  put("a/1.jpg");
  putText("b/readme.txt");
  EXPECT_TRUE(isImageFolder(place_));
  expectRefused<UsageError>({(place_ / "b").string(), "has no images"});
}

TEST_F(Folder, TellsWhichImageIsWrong) {
  put("a/1.jpg");
  put("a/2.jpg");
  putText("a/3.jpg");
  put("a/4.jpg");
  const auto set = openImageFolder(place_, Split::Train);
  writeTestFile(place_ / "a/1.jpg", readWholeFile(place_ / "a/1.jpg").substr(0, 700));
  fs::remove(place_ / "a/2.jpg");
  writeTestFile(place_ / "a/4.jpg", "");
  for (std::int64_t i = 0; i < 4; ++i) {
    Image image;
    const std::string message = errorOf<IoError>([&] { set->read(i, {}, image); });
    EXPECT_BEGINS(message, (place_ / set->nameOf(i)).string() + " ");
    EXPECT_TRUE(message.ends_with("; remove or replace it.")) << message;
  }
  std::string bytes;
  EXPECT_THROW(set->encoded(1, bytes), IoError);
}

TEST_F(Folder, ThatMayNotBeListedIsAnIoError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may list every folder";
  put("a/1.jpg");
  fs::permissions(place_ / "a", fs::perms::none);
  expectRefused<IoError>({(place_ / "a").string(), "Cannot list"});
  fs::permissions(place_ / "a", fs::perms::owner_all);
}

TEST(Flowers, AreFiveClassesOfPhotographs) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const fs::path place = fs::path(vectors) / "flowers";
  EXPECT_TRUE(isImageFolder(place));
  const auto set = openImageFolder(place, Split::Train);
  EXPECT_EQ(set->classNames(), (Names{"daisy", "dandelion", "roses", "sunflowers", "tulips"}));
  ASSERT_EQ(set->size(), 500);
  Image image;
  for (std::int64_t i = 0; i < set->size(); i += 10) {
    EXPECT_EQ(set->label(i), i / 100);
    set->read(i, {.channels = 3, .height = 64, .width = 64}, image);
    // A photograph has many values.
    EXPECT_GT(std::set<std::uint8_t>(image.pixels.begin(), image.pixels.end()).size(), 30u) << set->nameOf(i);
  }
}

}  // namespace
}  // namespace cohort
