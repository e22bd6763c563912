#include "data/image_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/test_error.h"
#include "data/test_images.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytesOf(const std::string& file) {
  return std::as_bytes(std::span(file));
}

Image decoded(const std::string& file, const ImageRequest& request = {}) {
  Image image;
  decodeImage(bytesOf(file), "x", request, image);
  return image;
}

std::string refusalOf(const std::string& file, const ImageRequest& request = {}) {
  Image image;
  return errorOf<IoError>([&] { decodeImage(bytesOf(file), "the file", request, image); });
}

// Grey as JPEG defines it.
Image greyOf(const Image& image) {
  Image grey;
  grey.reshape({.channels = 1, .height = image.shape.height, .width = image.shape.width});
  const std::size_t plane = grey.pixels.size();
  for (std::size_t i = 0; i < plane; ++i) {
    const double value =
        0.299 * image.pixels[i] + 0.587 * image.pixels[plane + i] + 0.114 * image.pixels[2 * plane + i];
    grey.pixels[i] = static_cast<std::uint8_t>(std::lround(value));
  }
  return grey;
}

Image colourOf(const Image& grey) {
  Image image;
  image.reshape({.channels = 3, .height = grey.shape.height, .width = grey.shape.width});
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = grey.pixels[i % grey.pixels.size()];
  }
  return image;
}

// Sets the big-endian number of `bytes` bytes at `at`.
void patch(std::string& file, std::size_t at, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    file[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
  }
}

// ---- PNG files of the kinds that encodePng does not write

struct PngOptions {
  int bits = 8;
  int type = PNG_COLOR_TYPE_GRAY;
  bool interlaced = false;
  std::vector<png_color> palette{};
  std::vector<png_byte> paletteAlpha{};
};

void appendTo(png_structp png, png_bytep data, std::size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
}

std::string pngOfRows(std::vector<std::vector<std::uint8_t>> rows, int width, const PngOptions& options) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, appendTo, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(rows.size()),
               options.bits, options.type, options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!options.palette.empty()) {
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  }
  if (!options.paletteAlpha.empty()) {
    png_set_tRNS(png, info, options.paletteAlpha.data(), static_cast<int>(options.paletteAlpha.size()),
                 nullptr);
  }
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

TEST(Png, GivesBackWhatWasEncoded) {
  for (const SampleShape shape : {SampleShape{3, 5, 7}, SampleShape{1, 28, 28}, SampleShape{3, 1, 1}}) {
    const Image image = smoothImage(shape, 3);
    const std::string file = encodePng(image);
    EXPECT_TRUE(isPng(bytesOf(file)));
    EXPECT_FALSE(isJpeg(bytesOf(file)));
    EXPECT_EQ(encodedShape(bytesOf(file), "x"), shape);
    EXPECT_EQ(decoded(file, {.channels = shape.channels}).pixels, image.pixels);
  }
}

TEST(Png, IsNotScaled) {
  const Image image = smoothImage({.channels = 3, .height = 40, .width = 30});
  EXPECT_EQ(decoded(encodePng(image), {.channels = 3, .height = 4, .width = 3}).pixels, image.pixels);
}

TEST(Png, ConvertsBetweenGreyAndColour) {
  const Image colour = smoothImage({.channels = 3, .height = 9, .width = 11});
  EXPECT_LE(largestDifference(decoded(encodePng(colour), {.channels = 1}), greyOf(colour)), 1);
  const Image grey = smoothImage({.channels = 1, .height = 9, .width = 11});
  EXPECT_EQ(decoded(encodePng(grey), {.channels = 3}).pixels, colourOf(grey).pixels);
}

TEST(Png, OfOneBitIsBlackAndWhite) {
  const std::string file = pngOfRows({{0b10100000}, {0b01100000}}, 3, {.bits = 1});
  EXPECT_EQ(encodedShape(bytesOf(file), "x"), (SampleShape{1, 2, 3}));
  EXPECT_EQ(decoded(file, {.channels = 1}).pixels, (std::vector<std::uint8_t>{255, 0, 255, 0, 255, 255}));
}

TEST(Png, OfSixteenBitsIsRounded) {
  // 0x00ff is nearer to 1 than to 0; 0xff00 is 254.01.
  const std::string file = pngOfRows({{0x00, 0xff, 0x80, 0x80, 0xff, 0x00}}, 3, {.bits = 16});
  EXPECT_EQ(decoded(file, {.channels = 1}).pixels, (std::vector<std::uint8_t>{1, 128, 254}));
}

TEST(Png, OfAPaletteHasItsColours) {
  const PngOptions options{.bits = 4,
                           .type = PNG_COLOR_TYPE_PALETTE,
                           .palette = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}},
                           .paletteAlpha = {0, 128}};
  const std::string file = pngOfRows({{0x01, 0x20}}, 3, options);
  EXPECT_EQ(encodedShape(bytesOf(file), "x"), (SampleShape{3, 1, 3}));
  EXPECT_EQ(decoded(file).pixels, (std::vector<std::uint8_t>{10, 40, 70, 20, 50, 80, 30, 60, 90}));
}

TEST(Png, LosesItsAlphaChannel) {
  const std::string colour = pngOfRows({{1, 2, 3, 0, 4, 5, 6, 128}}, 2, {.type = PNG_COLOR_TYPE_RGB_ALPHA});
  EXPECT_EQ(encodedShape(bytesOf(colour), "x"), (SampleShape{3, 1, 2}));
  EXPECT_EQ(decoded(colour).pixels, (std::vector<std::uint8_t>{1, 4, 2, 5, 3, 6}));
  const std::string grey = pngOfRows({{7, 0, 8, 9}}, 2, {.type = PNG_COLOR_TYPE_GRAY_ALPHA});
  EXPECT_EQ(encodedShape(bytesOf(grey), "x"), (SampleShape{1, 1, 2}));
  EXPECT_EQ(decoded(grey, {.channels = 1}).pixels, (std::vector<std::uint8_t>{7, 8}));
}

TEST(Png, InterlacedIsTheSameImage) {
  const int width = 13;
  std::vector<std::vector<std::uint8_t>> rows(11, std::vector<std::uint8_t>(3 * width));
  for (std::size_t i = 0; i < 11 * 3 * width; ++i) {
    rows[i / (3 * width)][i % (3 * width)] = static_cast<std::uint8_t>(i * 7);
  }
  const std::string plain = pngOfRows(rows, width, {.type = PNG_COLOR_TYPE_RGB});
  const std::string interlaced = pngOfRows(rows, width, {.type = PNG_COLOR_TYPE_RGB, .interlaced = true});
  EXPECT_NE(plain, interlaced);
  EXPECT_EQ(decoded(plain).pixels, decoded(interlaced).pixels);
  EXPECT_EQ(decoded(plain).pixels[width], rows[1][0]);
}

TEST(Png, TruncatedAnywhereIsRefused) {
  const std::string whole = encodePng(smoothImage({.channels = 3, .height = 9, .width = 7}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_MENTIONS(refusalOf(whole.substr(0, size)), "the file ");
  }
}

TEST(Png, ThatAnnouncesTooMuchTakesNoMemory) {
  std::string file = encodePng(smoothImage({.channels = 3, .height = 9, .width = 7}));
  const auto announce = [&](std::uint32_t width, std::uint32_t height) {
    patch(file, 16, width, 4);
    patch(file, 20, height, 4);
    patch(file, 29, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<Bytef*>(&file[12]), 17)), 4);
  };
  announce(40'000, 3);
  EXPECT_MENTIONS(refusalOf(file), "announces 3x40000 pixels");
  announce(20'000, 20'000);
  EXPECT_MENTIONS(refusalOf(file), "announces 20000x20000 pixels");
  announce(8'192, 8'192);
  EXPECT_MENTIONS(refusalOf(file), "cannot hold the 8192x8192 pixels");
  EXPECT_EQ(encodedShape(bytesOf(file), "x"), (SampleShape{3, 8192, 8192}));
}

// ---- JPEG

TEST(Jpeg, IsNearlyWhatWasEncoded) {
  const Image image = smoothImage({.channels = 3, .height = 61, .width = 83});
  for (const bool progressive : {false, true}) {
    for (const bool halfColour : {false, true}) {
      const std::string file = jpegOf(image, {.progressive = progressive, .halfColour = halfColour});
      EXPECT_TRUE(isJpeg(bytesOf(file)));
      EXPECT_FALSE(isPng(bytesOf(file)));
      EXPECT_EQ(encodedShape(bytesOf(file), "x"), image.shape);
      EXPECT_LE(largestDifference(decoded(file), image), 8);
    }
  }
}

TEST(Jpeg, ConvertsBetweenGreyAndColour) {
  const Image colour = smoothImage({.channels = 3, .height = 33, .width = 20});
  EXPECT_LE(largestDifference(decoded(jpegOf(colour), {.channels = 1}), greyOf(colour)), 4);
  EXPECT_LE(largestDifference(decoded(jpegOf(colour, {.stored = JCS_RGB}), {.channels = 1}), greyOf(colour)),
            4);
  const Image grey = smoothImage({.channels = 1, .height = 33, .width = 20});
  const std::string greyFile = jpegOf(grey);
  EXPECT_EQ(encodedShape(bytesOf(greyFile), "x").channels, 1);
  EXPECT_LE(largestDifference(decoded(greyFile, {.channels = 3}), colourOf(grey)), 4);
}

TEST(Jpeg, OfFourInksBecomesColour) {
  // Adobe's way: 255 is no ink. Cyan 100, magenta 200, yellow 255, black 128.
  std::vector<std::uint8_t> rows;
  for (int i = 0; i < 16 * 16; ++i) rows.insert(rows.end(), {100, 200, 255, 128});
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    const std::string file =
        jpegOfRows(rows, {.channels = 4, .height = 16, .width = 16}, JCS_CMYK, {.stored = stored});
    EXPECT_EQ(encodedShape(bytesOf(file), "x"), (SampleShape{3, 16, 16}));
    const Image image = decoded(file);
    ASSERT_EQ(image.shape, (SampleShape{3, 16, 16}));
    EXPECT_NEAR(image.pixels[0], 100 * 128 / 255.0, 3);
    EXPECT_NEAR(image.pixels[256], 200 * 128 / 255.0, 3);
    EXPECT_NEAR(image.pixels[512], 128, 3);
    const double grey = 0.299 * 50 + 0.587 * 100 + 0.114 * 128;
    EXPECT_NEAR(decoded(file, {.channels = 1}).pixels[7], grey, 3);
  }
}

TEST(Jpeg, OfFourInksFromOtherProgramsIsNotInverted) {
  std::vector<std::uint8_t> rows;
  for (int i = 0; i < 16 * 16; ++i) rows.insert(rows.end(), {155, 55, 0, 127});
  const Image image =
      decoded(jpegOfRows(rows, {.channels = 4, .height = 16, .width = 16}, JCS_CMYK, {.adobeMark = false}));
  EXPECT_NEAR(image.pixels[0], 100 * 128 / 255.0, 3);
  EXPECT_NEAR(image.pixels[256], 200 * 128 / 255.0, 3);
  EXPECT_NEAR(image.pixels[512], 128, 3);
}

TEST(Jpeg, OfUnknownComponentsIsRefused) {
  const std::vector<std::uint8_t> rows(2 * 16 * 16, 7);
  const std::string file = jpegOfRows(rows, {.channels = 2, .height = 16, .width = 16}, JCS_UNKNOWN);
  EXPECT_MENTIONS(refusalOf(file), "2 colour components");
}

// Scaled sizes are n eighths, rounded up, and the smallest that covers the request.
TEST(Jpeg, IsDecodedAtTheSmallestFastScaleThatCoversTheRequest) {
  struct Case {
    int height, width;            // asked for
    int givenHeight, givenWidth;  // of 100 x 203
  };
  const Image image = smoothImage({.channels = 3, .height = 100, .width = 203});
  const std::string file = jpegOf(image);
  for (const Case& c : std::vector<Case>{{1, 1, 13, 26},
                                         {13, 26, 13, 26},
                                         {14, 1, 25, 51},
                                         {1, 27, 25, 51},
                                         {25, 52, 38, 77},
                                         {50, 102, 50, 102},
                                         {51, 102, 100, 203},
                                         {64, 64, 100, 203},
                                         {76, 10, 100, 203},
                                         {89, 178, 100, 203},
                                         {100, 203, 100, 203},
                                         {101, 1, 100, 203},
                                         {500, 500, 100, 203},
                                         {0, 0, 100, 203},
                                         {0, 20, 100, 203}}) {
    for (const int channels : {1, 3}) {
      const Image given = decoded(file, {.channels = channels, .height = c.height, .width = c.width});
      EXPECT_EQ(given.shape, (SampleShape{channels, c.givenHeight, c.givenWidth}))
          << c.height << " x " << c.width;
      const Image expected = smoothImage(given.shape);
      if (channels == 3) {
        EXPECT_LE(largestDifference(given, expected), 14) << c.height << " x " << c.width;
      }
    }
  }
}

TEST(Jpeg, TruncatedAnywhereIsRefused) {
  const Image image = smoothImage({.channels = 3, .height = 20, .width = 24});
  for (const bool progressive : {false, true}) {
    const std::string whole = jpegOf(image, {.quality = 30, .progressive = progressive});
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_MENTIONS(refusalOf(whole.substr(0, size)), "the file ");
      EXPECT_MENTIONS(refusalOf(whole.substr(0, size), {.channels = 1, .height = 3, .width = 3}),
                      "the file ");
    }
  }
  EXPECT_MENTIONS(refusalOf(jpegOf(image).substr(0, jpegOf(image).size() - 40)),
                  "damaged JPEG image (Premature end of JPEG file)");
}

TEST(Jpeg, WithBytesBetweenItsSegmentsIsRead) {
  const Image image = smoothImage({.channels = 3, .height = 20, .width = 24});
  const std::string file = jpegOf(image);
  const std::string padded = file.substr(0, file.size() - 2) + std::string(9, 'x') + "\xff\xd9" + "behind";
  EXPECT_EQ(decoded(padded).pixels, decoded(file).pixels);
}

TEST(Jpeg, ThatAnnouncesTooMuchTakesNoMemory) {
  std::string file = jpegOf(smoothImage({.channels = 3, .height = 20, .width = 24}));
  const std::size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  const auto announce = [&](std::uint32_t height, std::uint32_t width) {
    patch(file, frame + 5, height, 2);
    patch(file, frame + 7, width, 2);
  };
  announce(40'000, 3);
  EXPECT_MENTIONS(refusalOf(file), "announces 40000x3 pixels");
  announce(20'000, 20'000);
  EXPECT_MENTIONS(refusalOf(file), "announces 20000x20000 pixels");
  announce(8'192, 8'192);
  EXPECT_MENTIONS(refusalOf(file), "cannot hold the 8192x8192 pixels");
}

TEST(Jpeg, OfArithmeticCodesIsReadButNotBelievedToBeHuge) {
  const JpegOptions arithmetic{.arithmetic = true};
  Image flat = smoothImage({.channels = 1, .height = 1024, .width = 1024});
  std::ranges::fill(flat.pixels, std::uint8_t{128});
  std::string file = jpegOf(flat, arithmetic);
  ASSERT_LT(file.size(), 1024u);
  EXPECT_EQ(decoded(file, {.channels = 1}).pixels, flat.pixels);
  const std::size_t frame = file.find("\xff\xc9");
  ASSERT_NE(frame, std::string::npos);
  patch(file, frame + 5, 8'192, 2);
  patch(file, frame + 7, 8'192, 2);
  EXPECT_MENTIONS(refusalOf(file), "cannot hold the 8192x8192 pixels");
}

// A progressive file whose first scan, of the constant parts, comes again and again: each costs time, the file stays small.
TEST(Jpeg, WithEndlessScansIsRefused) {
  const std::string file =
      jpegOf(smoothImage({.channels = 1, .height = 16, .width = 16}), {.progressive = true});
  const std::size_t first = file.find("\xff\xda");
  ASSERT_NE(first, std::string::npos);
  const std::size_t next = file.find('\xff', first + 2);
  const std::string again = file.substr(first, next - first);
  std::string endless = file.substr(0, next);
  for (int i = 0; i < 600; ++i) endless += again;
  EXPECT_MENTIONS(refusalOf(endless + "\xff\xd9"), "more scans than");
}

TEST(Images, OfOtherFormatsAreRefused) {
  for (const std::string& file : {std::string(), std::string("GIF89a..."), std::string("\xff\xd8"),
                                  std::string("<html></html>"), std::string("\x89PNG")}) {
    EXPECT_EQ(refusalOf(file), "the file is neither a JPEG nor a PNG image; remove or replace it.");
    EXPECT_THROW(encodedShape(bytesOf(file), "x"), IoError);
  }
}

// Whatever the damage: an error or an image of a sane size, and the next image is read as if nothing had happened.
TEST(Images, SurviveDamageAnywhere) {
  const Image image = smoothImage({.channels = 3, .height = 40, .width = 33});
  std::vector<std::vector<std::uint8_t>> rows(12, std::vector<std::uint8_t>(48, 77));
  const std::vector<std::string> files{jpegOf(image, {.quality = 60}),
                                       jpegOf(image, {.quality = 60, .progressive = true}), encodePng(image),
                                       pngOfRows(rows, 16, {.type = PNG_COLOR_TYPE_RGB, .interlaced = true})};
  const PhiloxKey key = philoxKey(7, 1);
  int refused = 0;
  for (const std::string& file : files) {
    const std::vector<std::uint8_t> right = decoded(file).pixels;
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
      std::string damaged = file;
      const auto random = philox(key, {seed, 0, 0, 0});
      for (std::uint32_t flips = 0; flips <= random[0] % 4; ++flips) {
        const auto place = philox(key, {seed, 1 + flips, 0, 0});
        flipBit(damaged, place[0] % damaged.size(), place[1] % 8);
      }
      Image out;
      try {
        decodeImage(bytesOf(damaged), "x", {.channels = 3, .height = 8, .width = 8}, out);
        EXPECT_EQ(out.pixels.size(), out.shape.count());
      } catch (const IoError&) {
        ++refused;
      }
    }
    EXPECT_EQ(decoded(file).pixels, right);
  }
  EXPECT_GT(refused, 6000);
}

TEST(Images, AreDecodedByManyThreadsAtOnce) {
  const Image image = smoothImage({.channels = 3, .height = 40, .width = 33});
  const std::string jpeg = jpegOf(image);
  const std::string png = encodePng(image);
  const Image right = decoded(jpeg);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& mine : wrong) {
    threads.emplace_back([&] {
      Image out;
      for (int i = 0; i < 50; ++i) {
        decodeImage(bytesOf(jpeg), "x", {}, out);
        if (out.pixels != right.pixels) ++mine;
        decodeImage(bytesOf(png), "x", {}, out);
        if (out.pixels != image.pixels) ++mine;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

double meanOf(const Image& image) {
  return std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0) /
         static_cast<double>(image.pixels.size());
}

// Photographs that cameras and other programs wrote.
TEST(Images, OfOtherProgramsAreRead) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  int count = 0;
  Image whole;
  Image reduced;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(vectors) / "flowers")) {
    if (entry.path().extension() != ".jpg" || count == 60) continue;
    const std::string file = readWholeFile(entry.path());
    const SampleShape shape = encodedShape(bytesOf(file), entry.path().string());
    decodeImage(bytesOf(file), entry.path().string(), {.channels = 3}, whole);
    EXPECT_EQ(whole.shape, shape);
    decodeImage(bytesOf(file), entry.path().string(), {.channels = 3, .height = 32, .width = 32}, reduced);
    EXPECT_GE(std::min(reduced.shape.height, reduced.shape.width), 32);
    EXPECT_LT(reduced.shape.height, shape.height);
    EXPECT_NEAR(meanOf(whole), meanOf(reduced), 2) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 60);
}

}  // namespace
}  // namespace cohort
