#include "data/packed_images.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/image_folder.h"
#include "data/test_images.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Pixels in memory, as the readers of MNIST and CIFAR have them.
class PixelSet final : public ImageSet {
 public:
  PixelSet(SampleShape shape, std::int64_t size) : shape_(shape), size_(size) {}

  std::int64_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  const std::vector<std::string>& classNames() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index % 2); }
  std::string nameOf(std::int64_t index) const override { return "batch_1.bin:" + std::to_string(index); }
  void read(std::int64_t index, const ImageRequest& /*request*/, Image& image) const override {
    image = smoothImage(shape_, static_cast<int>(index));
  }

 private:
  SampleShape shape_;
  std::int64_t size_;
  std::vector<std::string> classes_{"even", "odd"};
};

void expectSame(const ImageSet& a, const ImageSet& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.classNames(), b.classNames());
  EXPECT_EQ(a.orderedByClass(), b.orderedByClass());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.label(i), b.label(i));
    EXPECT_EQ(a.nameOf(i), b.nameOf(i));
    std::string fileA = "none";
    std::string fileB = "none";
    EXPECT_EQ(a.encoded(i, fileA), b.encoded(i, fileB));
    EXPECT_EQ(fileA, fileB);
    for (const ImageRequest& request :
         {ImageRequest{}, ImageRequest{.channels = 1, .height = 7, .width = 9}}) {
      Image imageA;
      Image imageB;
      a.read(i, request, imageA);
      b.read(i, request, imageB);
      EXPECT_EQ(imageA.shape, imageB.shape);
      EXPECT_EQ(imageA.pixels, imageB.pixels);
    }
  }
}

class Packed : public ::testing::Test {
 protected:
  Packed() {
    int phase = 0;
    for (const std::string split : {"train", "val"}) {
      for (const std::string name : {"daisy", "tulips"}) {
        const fs::path folder = source_ / split / name;
        fs::create_directories(folder);
        const Image image = smoothImage({.channels = 3, .height = 30, .width = 40}, phase += 5);
        writeTestFile(folder / "1.jpg", jpegOf(image, {.quality = 50}));
        writeTestFile(folder / "2.png", encodePng(image));
      }
    }
    fs::remove(source_ / "val" / "daisy" / "2.png");
  }

  std::unique_ptr<ImageSet> openSource(Split split) const { return openImageFolder(source_, split); }
  void pack() const {
    packImages([&](Split split) { return openSource(split); }, path_);
  }
  void packPixels(SampleShape shape) const {
    packImages(
        [&](Split split) -> std::unique_ptr<ImageSet> {
          if (split == Split::Validation) return nullptr;
          return std::make_unique<PixelSet>(shape, split == Split::Train ? 5 : 3);
        },
        path_);
  }

  std::string refusal(const std::string& contents) const {
    fs::remove(path_);  // some file systems wait for the disk where a file is written over
    writeTestFile(path_, contents);
    std::string message = errorOf<IoError>([&] { openPackedImages(path_, Split::Train); });
    if (message != "no error") {
      EXPECT_MENTIONS(message, path_.string());
    }
    return message;
  }

  TestDirectory directory_;
  fs::path source_ = directory_ / "source";
  fs::path path_ = directory_ / "images.pack";
};

TEST_F(Packed, FoldersGiveTheSameImages) {
  EXPECT_FALSE(isPackedImages(path_));
  pack();
  EXPECT_TRUE(isPackedImages(path_));
  EXPECT_FALSE(isPackedImages(source_));
  EXPECT_FALSE(isPackedImages(source_ / "train/daisy/1.jpg"));
  const auto training = openPackedImages(path_, Split::Train);
  ASSERT_NE(training, nullptr);
  EXPECT_EQ(training->size(), 4);
  EXPECT_TRUE(training->orderedByClass());
  expectSame(*training, *openSource(Split::Train));
  const auto validation = openPackedImages(path_, Split::Validation);
  ASSERT_NE(validation, nullptr);
  EXPECT_EQ(validation->size(), 3);
  EXPECT_EQ(validation->nameOf(1), "tulips/1.jpg");
  expectSame(*validation, *openSource(Split::Validation));
  EXPECT_EQ(openPackedImages(path_, Split::Test), nullptr);
  verifyPackedImages(path_);
}

TEST_F(Packed, PixelsGiveTheSameImages) {
  for (const SampleShape shape : {SampleShape{3, 8, 6}, SampleShape{1, 28, 28}}) {
    packPixels(shape);
    const auto training = openPackedImages(path_, Split::Train);
    ASSERT_NE(training, nullptr);
    EXPECT_FALSE(training->orderedByClass());
    expectSame(*training, PixelSet(shape, 5));
    EXPECT_EQ(openPackedImages(path_, Split::Validation), nullptr);
    expectSame(*openPackedImages(path_, Split::Test), PixelSet(shape, 3));
  }
}

TEST_F(Packed, AgainAreTheSameBytes) {
  for (const bool pixels : {false, true}) {
    pixels ? packPixels({3, 8, 6}) : pack();
    const fs::path again = directory_ / "again.pack";
    packImages([&](Split split) { return openPackedImages(path_, split); }, again);
    EXPECT_EQ(readWholeFile(path_), readWholeFile(again));
  }
}

TEST_F(Packed, ReportsItsProgress) {
  std::vector<std::int64_t> told;
  packImages([&](Split split) { return openSource(split); }, path_,
             [&](std::int64_t done, std::int64_t all) {
               EXPECT_EQ(all, 7);
               told.push_back(done);
             });
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(Packed, IsNotWrittenWhereAnImageIsWrong) {
  writeTestFile(source_ / "val/tulips/1.jpg", "no image");
  EXPECT_MENTIONS(errorOf<IoError>([&] { pack(); }), "tulips/1.jpg");
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1) << "a temporary file is left";
}

TEST_F(Packed, NeedsImagesAndOneSetOfClasses) {
  EXPECT_THROW(packImages([](Split) { return std::unique_ptr<ImageSet>(); }, path_), UsageError);
  const auto mixed = [&](Split split) -> std::unique_ptr<ImageSet> {
    if (split == Split::Train) return openSource(split);
    return std::make_unique<PixelSet>(SampleShape{3, 4, 4}, 2);
  };
  EXPECT_THROW(packImages(mixed, path_), UsageError);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Packed, TruncatedAnywhereIsRefused) {
  pack();
  const std::string whole = readWholeFile(path_);
  // Each place in the header and the index, some in the images.
  for (std::size_t size = 0; size < whole.size(); size += size < 70 || size + 500 > whole.size() ? 1 : 41) {
    EXPECT_NE(refusal(whole.substr(0, size)), "no error") << size;
  }
  EXPECT_NE(refusal(whole + "x"), "no error");
  EXPECT_MENTIONS(refusal(whole.substr(0, 20)), "ends inside its header");
  EXPECT_MENTIONS(refusal("something else"), "is not a file of packed images");
  EXPECT_NE(refusal(""), "no error");
}

// Every bit counts: what opening does not notice, reading or verifying does.
TEST_F(Packed, WithAnyBitFlippedIsNoticed) {
  pack();
  const std::string whole = readWholeFile(path_);
  const PhiloxKey key = philoxKey(1, 2);
  int noticedWhenOpened = 0;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    std::string damaged = whole;
    const auto random = philox(key, {seed, 0, 0, 0});
    // Two times of three in the header or the index, which are small.
    const std::size_t place = random[0] % damaged.size();
    const std::size_t header = random[0] % 64;
    const std::size_t index = damaged.size() - 1 - random[0] % 300;
    flipBit(damaged, seed % 3 == 0 ? place : seed % 3 == 1 ? header : index, random[1] % 8);
    noticedWhenOpened += refusal(damaged) != "no error" ? 1 : 0;
    EXPECT_THROW(verifyPackedImages(path_), IoError) << seed;
  }
  EXPECT_GE(noticedWhenOpened, 400);
}

TEST_F(Packed, NamesTheImageThatIsDamaged) {
  pack();
  std::string whole = readWholeFile(path_);
  const std::string image = readWholeFile(source_ / "train/tulips/1.jpg");
  flipBit(whole, whole.find(image) + image.size() / 2, 3);
  writeTestFile(path_, whole);
  const auto set = openPackedImages(path_, Split::Train);
  Image out;
  set->read(0, {}, out);
  EXPECT_MENTIONS(errorOf<IoError>([&] { set->read(2, {}, out); }), "its image tulips/1.jpg");
}

// A file whose hashes are right but whose index lies, as somebody may make it on purpose.
TEST_F(Packed, WithALyingIndexIsRefused) {
  pack();
  const std::string whole = readWholeFile(path_);
  std::uint64_t indexOffset = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    indexOffset |= std::uint64_t{static_cast<unsigned char>(whole[16 + i])} << (8 * i);
  }
  const auto forged = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::string file = whole;
    for (std::size_t i = 0; i < bytes; ++i) {
      file[indexOffset + at + i] = static_cast<char>(value >> (8 * i));
    }
    const std::string hash = hashBytes(std::as_bytes(std::span(file).subspan(indexOffset)));
    return refusal(file.replace(32, 32, hash));
  };
  EXPECT_EQ(forged(0, 2, 8), "no error");
  struct Lie {
    std::size_t at;
    std::size_t bytes;
    const char* why;
  };
  const std::size_t record = 16 + 3 * 24;
  for (const Lie& lie : std::vector<Lie>{{0, 8, "do not add up"},
                                         {8, 8, "do not add up"},
                                         {16, 8, "more images than it has"},
                                         {16 + 12, 4, "impossible shape"},
                                         {16 + 16, 4, "impossible shape"},
                                         {record, 8, "wrong about image 0"},
                                         {record + 16, 4, "wrong about image 0"},
                                         {record + 20, 4, "wrong about image 0"},
                                         {record + 24, 8, "wrong about image 0"},
                                         {record + 6 * 32, 8, "wrong about image 6"},
                                         {record + 7 * 32, 8, "wrong about class 0"}}) {
    for (const std::uint64_t value : {~std::uint64_t{0}, std::uint64_t{1} << 63 | 1u << 31}) {
      EXPECT_MENTIONS(forged(lie.at, value, lie.bytes), lie.why)
          << lie.at << ": " << forged(lie.at, value, lie.bytes);
    }
  }
  EXPECT_MENTIONS(forged(record, 0, 8), "wrong about image 0");
  EXPECT_MENTIONS(forged(record + 32 + 24, 0, 8), "wrong about image 1");
}

TEST_F(Packed, OfAnotherVersionSaysSo) {
  pack();
  std::string whole = readWholeFile(path_);
  whole[8] = 2;
  EXPECT_MENTIONS(refusal(whole), "has version 2 of its format");
}

TEST_F(Packed, MissingOrAFolderIsAnIoError) {
  EXPECT_THROW(openPackedImages(path_, Split::Train), IoError);
  EXPECT_THROW(openPackedImages(source_, Split::Train), IoError);
}

TEST(PackedFlowers, AreThePhotographs) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const fs::path place = fs::path(vectors) / "flowers";
  const TestDirectory directory;
  packImages([&](Split split) { return openImageFolder(place, split); }, directory / "flowers.pack");
  verifyPackedImages(directory / "flowers.pack");
  const auto source = openImageFolder(place, Split::Train);
  const auto packed = openPackedImages(directory / "flowers.pack", Split::Train);
  ASSERT_EQ(packed->size(), 500);
  Image a;
  Image b;
  for (std::int64_t i = 0; i < packed->size(); i += 25) {
    EXPECT_EQ(packed->nameOf(i), source->nameOf(i));
    source->read(i, {.channels = 3, .height = 64, .width = 64}, a);
    packed->read(i, {.channels = 3, .height = 64, .width = 64}, b);
    EXPECT_EQ(a.pixels, b.pixels);
  }
}

}  // namespace
}  // namespace cohort
