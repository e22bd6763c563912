#include "data/image_dataset.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/image_vectors.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Three channels of different brightness; an image's pixels depend on its number.
int pixel(std::int64_t i, int c, int y, int x) {
  return (static_cast<int>(i * 7 % 100) + c * 40 + y * 5 + x * 3) % 100 + c * 50;
}

ImageDatasetOptions computed(std::int64_t train, std::int64_t validation, std::int64_t test) {
  return {
      .name = "computed", .open = [=](Split split) -> std::unique_ptr<ImageSet> {
        const std::int64_t size = split == Split::Train ? train : split == Split::Test ? test : validation;
        if (size == 0) return nullptr;
        return std::make_unique<ComputedImages>(size, SampleShape{3, 6, 6}, 4, pixel);
      }};
}

std::string refusal(const ImageDatasetOptions& images, const DatasetOptions& options,
                    Split split = Split::Train) {
  return errorOf<UsageError>([&] { imageSource(images, options)->open(split); });
}

// Mean and standard deviation of one channel over a dataset.
std::pair<double, double> momentsOf(const Dataset& dataset, std::size_t channel) {
  std::vector<float> pixels(dataset.shape().count());
  const std::size_t plane = pixels.size() / static_cast<std::size_t>(dataset.shape().channels);
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, i, pixels);
    for (std::size_t p = channel * plane; p < (channel + 1) * plane; ++p) {
      sum += pixels[p];
      squares += static_cast<double>(pixels[p]) * pixels[p];
    }
  }
  const double n = static_cast<double>(dataset.size()) * static_cast<double>(plane);
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

TEST(ImageDataset, MeasuresTheTrainingImagesForNormalisation) {
  const auto source = imageSource(computed(50, 0, 20), {.normalize = "measured"});
  const auto train = source->open(Split::Train);
  for (const std::size_t channel : {0u, 1u, 2u}) {
    const auto [mean, deviation] = momentsOf(*train, channel);
    EXPECT_NEAR(mean, 0, 1e-5);
    EXPECT_NEAR(deviation, 1, 1e-5);
  }
  // The test images are normalised by the training images' numbers, not by their own.
  EXPECT_GT(std::abs(momentsOf(*source->open(Split::Test), 0).first), 1e-3);
}

TEST(ImageDataset, UsesWhatIsKnownOfASetUnlessToldToMeasure) {
  ImageDatasetOptions images = computed(50, 0, 20);
  images.known = ChannelStatistics{.mean = {0.0f, 0.5f, 1.0f}, .standardDeviation = {1.0f, 1.0f, 0.5f}};
  std::vector<float> pixels(108);
  imageSource(images, {})->open(Split::Train)->read(3, 0, pixels);
  EXPECT_NEAR(pixels[0], static_cast<float>(pixel(3, 0, 0, 0)) / 255, 1e-6);
  EXPECT_NEAR(pixels[36], static_cast<float>(pixel(3, 1, 0, 0)) / 255 - 0.5, 1e-6);
  EXPECT_NEAR(pixels[72], (static_cast<float>(pixel(3, 2, 0, 0)) / 255 - 1.0) * 2, 1e-6);
  const auto measured = imageSource(images, {.normalize = "measured"})->open(Split::Train);
  EXPECT_NEAR(momentsOf(*measured, 2).first, 0, 1e-5);
}

TEST(ImageDataset, TakesGivenNumbersForAllChannelsOrEach) {
  std::vector<float> pixels(108);
  const auto read = [&](const char* normalize) {
    imageSource(computed(50, 0, 20), {.normalize = normalize})->open(Split::Train)->read(0, 0, pixels);
    return std::vector<float>{pixels[0], pixels[36]};
  };
  const float first = static_cast<float>(pixel(0, 0, 0, 0)) / 255;
  const float second = static_cast<float>(pixel(0, 1, 0, 0)) / 255;
  EXPECT_NEAR(read("none")[1], second, 1e-6);
  EXPECT_NEAR(read("0.5/0.25")[0], (first - 0.5f) / 0.25f, 1e-5);
  EXPECT_NEAR(read("0.1,0.2,0.3/1,2,3")[1], (second - 0.2f) / 2, 1e-6);
  for (const char* wrong :
       {"0.1,0.2/1,1", "0.1,0.2,0.3/1,2", "0.5/0", "0.5/-1", "a/b", "0.5", "minmax", "/", "nan/1"}) {
    EXPECT_NE(refusal(computed(50, 0, 20), {.normalize = wrong}), "no error") << wrong;
  }
}

TEST(ImageDataset, StandardisesEachImageByItself) {
  const auto dataset = imageSource(computed(50, 0, 20), {.normalize = "image"})->open(Split::Train);
  std::vector<float> pixels(108);
  dataset->read(11, 0, pixels);
  const double mean = std::accumulate(pixels.begin(), pixels.end(), 0.0) / 108;
  const double squares = std::inner_product(pixels.begin(), pixels.end(), pixels.begin(), 0.0) / 108;
  EXPECT_NEAR(mean, 0, 1e-5);
  EXPECT_NEAR(squares, 1, 1e-4);
  // An image of one colour has nothing to divide by.
  const ImageDatasetOptions flat{.name = "flat", .open = [](Split) {
                                   return std::make_unique<ComputedImages>(
                                       4, SampleShape{1, 2, 2}, 2,
                                       [](std::int64_t, int, int, int) { return 9; });
                                 }};
  std::vector<float> four(4);
  imageSource(flat, {.normalize = "image"})->open(Split::Train)->read(0, 0, four);
  EXPECT_EQ(four, std::vector<float>(4, 0.0f));
}

TEST(ImageDataset, SubtractsTheMeanImage) {
  const auto dataset = imageSource(computed(100, 0, 20), {.normalize = "mean-image"})->open(Split::Train);
  std::vector<float> pixels(108);
  std::vector<double> sums(108);
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    dataset->read(i, i, pixels);
    for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += pixels[p];
  }
  for (const double sum : sums) EXPECT_NEAR(sum / 100, 0, 1e-5);
}

TEST(ImageDataset, KeepsMeasuredStatisticsAndMeasuresAnewWhenTheImagesChange) {
  const TestDirectory cache;
  const auto read = [&](const ImageDatasetOptions& images) {
    std::vector<float> pixels(108);
    imageSource(images, {.normalize = "measured", .cacheDirectory = cache.path()})
        ->open(Split::Train)
        ->read(0, 0, pixels);
    return pixels;
  };
  const auto files = [&] {
    return std::distance(fs::directory_iterator(cache.path()), fs::directory_iterator());
  };
  const auto first = read(computed(50, 0, 20));
  ASSERT_EQ(files(), 1);
  // What is kept is what is used: a changed file shows.
  const fs::path kept = fs::directory_iterator(cache.path())->path();
  EXPECT_EQ(read(computed(50, 0, 20)), first);
  EXPECT_EQ(files(), 1);
  read(computed(51, 0, 20));
  EXPECT_EQ(files(), 2);
  writeTestFile(kept, "{\"mean\": [1");  // a torn one is replaced
  EXPECT_EQ(read(computed(50, 0, 20)), first);
  // A cache that cannot be written costs nothing but time.
  writeTestFile(cache / "file", "");
  std::vector<float> pixels(108);
  imageSource(computed(50, 0, 20), {.normalize = "measured", .cacheDirectory = cache / "file" / "below"})
      ->open(Split::Train)
      ->read(0, 0, pixels);
  EXPECT_EQ(pixels, first);
}

TEST(ImageDataset, AugmentsOnlyTraining) {
  const DatasetOptions options{.transforms = "pad-crop:2,flip", .normalize = "none"};
  const auto source = imageSource(computed(50, 0, 20), options);
  std::vector<float> a(108);
  std::vector<float> b(108);
  const auto train = source->open(Split::Train);
  int differing = 0;
  for (std::int64_t p = 0; p < 20; ++p) {
    train->read(5, p, a);
    train->read(5, p + 100, b);
    differing += a != b ? 1 : 0;
    train->read(5, p, b);
    EXPECT_EQ(a, b);
  }
  EXPECT_GT(differing, 15);
  const auto test = source->open(Split::Test);
  test->read(5, 0, a);
  test->read(5, 77, b);
  EXPECT_EQ(a, b);
  DatasetOptions plain = options;
  plain.augment = false;
  const auto still = imageSource(computed(50, 0, 20), plain)->open(Split::Train);
  still->read(5, 0, b);
  EXPECT_EQ(a, b);  // the two splits compute the same images
  EXPECT_TRUE(train->costly());
  EXPECT_FALSE(imageSource(computed(50, 0, 20), {.normalize = "none"})->open(Split::Train)->costly());
}

TEST(ImageDataset, UsesFilesOfItsOwnForEverySplit) {
  const auto source = imageSource(computed(50, 30, 20), {.normalize = "none"});
  EXPECT_EQ(source->open(Split::Train)->size(), 50);
  EXPECT_EQ(source->open(Split::Validation)->size(), 30);
  EXPECT_EQ(source->open(Split::Test)->size(), 20);
}

TEST(ImageDataset, CutsSplitsOffTheTrainingImages) {
  const auto source = imageSource(computed(50, 0, 20), {.normalize = "none", .validationSplit = "8"});
  EXPECT_EQ(source->open(Split::Train)->size(), 42);
  EXPECT_EQ(source->open(Split::Validation)->size(), 8);
  EXPECT_EQ(source->open(Split::Test)->size(), 20);
  // A tenth is kept back for tests where there are no files for it.
  const auto bare = imageSource(computed(1000, 0, 0), {.normalize = "none"});
  const std::int64_t train = bare->open(Split::Train)->size();
  EXPECT_NEAR(static_cast<double>(train), 900, 40);
  EXPECT_EQ(bare->open(Split::Test)->size(), 1000 - train);
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {}, Split::Validation), "--validation-split");
  EXPECT_MENTIONS(refusal(computed(50, 0, 0), {.testSplit = "none"}, Split::Test), "--test-split");
  EXPECT_MENTIONS(refusal(computed(50, 0, 0), {.testSplit = "files"}, Split::Test), "no test files");
}

TEST(ImageDataset, EndsWhereASetGivesOtherShapesThanItSaid) {
  const ComputedImages colour(5, {3, 6, 6}, 2, pixel);
  EXPECT_DEATH(measureStatistics(colour, {}, {1, 6, 6}, {}), "the image does not fit");
}

TEST(ImageDataset, RefusesShapesThatCannotBe) {
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {.transforms = "center-crop:7"}), "at least 7x7");
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {.transforms = "resize:4x5"}), "square");
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {.imageSize = 8}), "--transforms resize:8x8");
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {.imageSize = 5, .transforms = "center-crop:4"}),
                  "--image-size 4");
  EXPECT_MENTIONS(refusal(computed(50, 0, 20), {.channels = 1}), "3 channels, but 1");
}

}  // namespace
}  // namespace cohort
