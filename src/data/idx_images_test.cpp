#include "data/idx_images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/idx_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// Pixel j of image i is (7 i + j) mod 256, its label i mod 10.
std::string imageFile(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  std::string file = number(0x803) + number(count) + number(height) + number(width);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t j = 0; j < height * width; ++j) file += static_cast<char>((7 * i + j) % 256);
  }
  return file;
}

std::string labelFile(std::uint32_t count) {
  std::string file = number(0x801) + number(count);
  for (std::uint32_t i = 0; i < count; ++i) file += static_cast<char>(i % 10);
  return file;
}

std::string gzipped(const std::string& text) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<Bytef> input(text.begin(), text.end());
  std::string out(deflateBound(&state, input.size()), '\0');
  state.next_in = input.data();
  state.avail_in = static_cast<uInt>(input.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

// A folder with a training split whose two files a test may replace.
class IdxFiles : public ::testing::Test {
 protected:
  IdxFiles() {
    writeTestFile(images_, imageFile(25, 4, 6));
    writeTestFile(labels_, labelFile(25));
  }

  void expectRefused(const fs::path& culprit, std::string_view why) const {
    const std::string message = errorOf<IoError>([&] { openIdx(directory_.path(), Split::Train); });
    EXPECT_MENTIONS(message, culprit.string());
    EXPECT_MENTIONS(message, why);
  }

  TestDirectory directory_;
  fs::path images_ = directory_ / "train-images-idx3-ubyte";
  fs::path labels_ = directory_ / "train-labels-idx1-ubyte";
};

void expectGeneratedSamples(const ImageSet& images) {
  ASSERT_EQ(images.size(), 25);
  ASSERT_EQ(images.shape(), (SampleShape{1, 4, 6}));
  EXPECT_EQ(images.classNames().size(), 10u);
  Image image;
  for (const std::int64_t i : {0, 7, 24}) {
    images.read(i, {}, image);
    EXPECT_EQ(images.label(i), i % 10);
    EXPECT_EQ(images.nameOf(i), std::to_string(i));
    ASSERT_EQ(image.shape, images.shape());
    for (std::size_t j = 0; j < image.pixels.size(); ++j) {
      EXPECT_EQ(image.pixels[j], (7 * static_cast<std::size_t>(i) + j) % 256);
    }
  }
}

TEST_F(IdxFiles, AreReadPlain) {
  expectGeneratedSamples(*openIdx(directory_.path(), Split::Train));
}

TEST_F(IdxFiles, AreReadGzipped) {
  fs::remove(images_);
  fs::remove(labels_);
  writeTestFile(images_.string() + ".gz", gzipped(imageFile(25, 4, 6)));
  writeTestFile(labels_.string() + ".gz", gzipped(labelFile(25)));
  expectGeneratedSamples(*openIdx(directory_.path(), Split::Train));
}

TEST_F(IdxFiles, OfTheTestSplitHaveNamesOfTheirOwn) {
  EXPECT_THROW(openIdx(directory_.path(), Split::Test), UsageError);
  EXPECT_EQ(openIdx(directory_.path(), Split::Validation), nullptr);
  writeTestFile(directory_ / "t10k-images-idx3-ubyte", imageFile(3, 4, 6));
  writeTestFile(directory_ / "t10k-labels-idx1-ubyte", labelFile(3));
  EXPECT_EQ(openIdx(directory_.path(), Split::Test)->size(), 3);
}

TEST_F(IdxFiles, MissingAreNamedWithTheirFolder) {
  fs::remove(labels_);
  const std::string message = errorOf<UsageError>([&] { openIdx(directory_.path(), Split::Train); });
  EXPECT_MENTIONS(message, "train-labels-idx1-ubyte");
  EXPECT_MENTIONS(message, directory_.path().string());
}

TEST_F(IdxFiles, WithAnotherMagicNumberAreRefused) {
  writeTestFile(images_, labelFile(25));
  expectRefused(images_, "begins with 0x00000801");
  writeTestFile(images_, "<html>this is not the file</html>");
  expectRefused(images_, "0x00000803");
}

TEST_F(IdxFiles, TruncatedAnywhereAreRefused) {
  const std::string whole = imageFile(25, 4, 6);
  for (std::size_t size = 0; size < whole.size(); size += size < 20 ? 1 : 97) {
    writeTestFile(images_, whole.substr(0, size));
    expectRefused(images_, "truncated");
  }
}

TEST_F(IdxFiles, GzippedAndTruncatedAnywhereAreRefused) {
  const std::string whole = gzipped(imageFile(25, 4, 6));
  for (std::size_t size = 2; size < whole.size(); ++size) {
    writeTestFile(images_, whole.substr(0, size));
    expectRefused(images_, "truncated");
  }
}

TEST_F(IdxFiles, GzippedAndDamagedAreRefused) {
  std::string damaged = gzipped(imageFile(25, 4, 6));
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  writeTestFile(images_, damaged);
  expectRefused(images_, "not a valid gzip stream");
}

TEST_F(IdxFiles, WithTrailingBytesAreRefused) {
  const std::string whole = imageFile(25, 4, 6);
  for (const std::string& file : {whole + "x", gzipped(whole + "x"), gzipped(whole) + "x"}) {
    writeTestFile(images_, file);
    expectRefused(images_, "goes on after the 600 values");
  }
}

TEST_F(IdxFiles, ThatAnnounceMoreThanTheyCanHoldTakeNoMemory) {
  std::string header = number(0x803);
  for (int extent = 0; extent < 3; ++extent) header += number(0xffffffff);
  for (const std::string& file : {header, gzipped(header)}) {
    writeTestFile(images_, file);
    expectRefused(images_, "truncated");
  }
}

TEST_F(IdxFiles, WithoutImagesOrPixelsAreRefused) {
  writeTestFile(images_, imageFile(0, 4, 6));
  expectRefused(images_, "0 images of 4x6");
  writeTestFile(images_, imageFile(25, 0, 6));
  expectRefused(images_, "25 images of 0x6");
}

TEST_F(IdxFiles, WhoseCountsDifferAreRefused) {
  writeTestFile(labels_, labelFile(24));
  expectRefused(images_, "has 25 images");
  expectRefused(labels_, "has 24 labels");
}

TEST_F(IdxFiles, WithALabelAboveNineAreRefused) {
  std::string file = labelFile(25);
  file[8 + 13] = 10;
  writeTestFile(labels_, file);
  expectRefused(labels_, "the label of sample 13 is 10");
}

}  // namespace
}  // namespace cohort
