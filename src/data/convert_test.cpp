#include "data/convert.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "data/cifar.h"
#include "data/test_cifar.h"
#include "data/tfrecord.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Images of cifarPixels in any number, with labels that follow each other.
class InventedSet final : public ImageSet {
 public:
  struct Options {
    int first = 0;
    int count = 0;
    SampleShape shape = kCifarShape;
    std::vector<std::string> names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    bool ordered = false;
    int damaged = -1;
  };

  explicit InventedSet(Options options) : options_(std::move(options)) {}
  std::int64_t size() const override { return options_.count; }
  SampleShape shape() const override { return options_.shape; }
  const std::vector<std::string>& classNames() const override { return options_.names; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>((options_.first + index) % std::ssize(options_.names));
  }
  std::string nameOf(std::int64_t index) const override { return std::to_string(index); }
  bool orderedByClass() const override { return options_.ordered; }
  void read(std::int64_t index, const ImageRequest& /*request*/, Image& image) const override {
    if (index == options_.damaged) throw IoError("this image is damaged.");
    image.shape = options_.shape;
    image.pixels = cifarPixels(options_.first + static_cast<int>(index));
  }

 private:
  Options options_;
};

std::unique_ptr<ImageSet> invented(InventedSet::Options options) {
  return std::make_unique<InventedSet>(std::move(options));
}

// Which images a file or a set has, by their first pixels.
std::vector<int> imagesOf(const ImageSet& set) {
  std::vector<int> images;
  Image image;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.read(i, {}, image);
    const int number = image.pixels[0] + 256 * image.pixels[1];
    EXPECT_EQ(image.pixels, cifarPixels(number));
    images.push_back(number);
  }
  return images;
}

std::vector<int> range(int begin, int end) {
  std::vector<int> numbers;
  for (int i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}

class Convert : public testing::Test {
 protected:
  std::vector<int> written(const std::string& name) const {
    return imagesOf(*openTfrecords(to_ / name, Split::Train));
  }

  std::string refusal(const ConvertSource& source, ConvertTarget target) const {
    std::string message = errorOf<UsageError>([&] { convertDataset(source, to_, target); });
    EXPECT_MENTIONS(message, source.place);
    EXPECT_FALSE(fs::exists(to_));
    return message;
  }

  TestDirectory from_;
  TestDirectory outer_;
  fs::path to_ = outer_ / "made/here";
};

TEST_F(Convert, CutsATenthOffForValidation) {
  writeCifar10(from_.path(), 4, 6);
  const ConvertReport report = convertDataset(from_.path(), to_, ConvertTarget::Tfrecord);
  EXPECT_FALSE(report.source.empty());
  ASSERT_EQ(report.files.size(), 3u);
  EXPECT_EQ(report.files[0].path, to_ / "train.tfrecords");
  EXPECT_EQ(report.files[0].images, 18);
  EXPECT_EQ(report.files[1].path, to_ / "validation.tfrecords");
  EXPECT_EQ(report.files[1].images, 2);
  EXPECT_EQ(report.files[2].path, to_ / "eval.tfrecords");
  EXPECT_EQ(report.files[2].images, 6);
  EXPECT_EQ(written("train.tfrecords"), range(0, 18));
  EXPECT_EQ(written("validation.tfrecords"), range(18, 20));
  EXPECT_EQ(written("eval.tfrecords"), range(20, 26));
  const auto test = openTfrecords(to_, Split::Test);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(test->label(i), (20 + i) % 10);
}

TEST_F(Convert, BringsBinaryFilesBackAsTheyWere) {
  for (const auto& [batch, test] : {std::pair(1, 1), std::pair(8, 3), std::pair(50, 30)}) {
    const TestDirectory binary;
    const TestDirectory records;
    const TestDirectory again;
    writeCifar10(binary.path(), batch, test);
    convertDataset(binary.path(), records.path(), ConvertTarget::Tfrecord);
    const ConvertReport report = convertDataset(records.path(), again.path(), ConvertTarget::Binary);
    ASSERT_EQ(report.files.size(), 6u);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(binary.path())) {
      ++files;
      EXPECT_TRUE(readWholeFile(entry.path()) == readWholeFile(again.path() / entry.path().filename()))
          << batch << " " << entry.path();
    }
    EXPECT_EQ(files, 6);
    EXPECT_FALSE(fs::exists(again / "batches.meta.txt"));
  }
}

TEST_F(Convert, KeepsImagesForValidationWhereTheSourceHasThem) {
  ConvertSource source{
      .place = "place", .description = "invented", .train = {}, .validation = {}, .test = {}};
  source.train = invented({.first = 0, .count = 20});
  source.validation = invented({.first = 20, .count = 3});
  const ConvertReport report = convertDataset(source, to_, ConvertTarget::Tfrecord);
  EXPECT_EQ(report.source, "invented");
  ASSERT_EQ(report.files.size(), 2u);  // no test images, no file
  EXPECT_EQ(written("train.tfrecords"), range(0, 20));
  EXPECT_EQ(written("validation.tfrecords"), range(20, 23));
  EXPECT_FALSE(fs::exists(to_ / "eval.tfrecords"));
}

TEST_F(Convert, TakesEveryTenthImageWhereTheyAreOrderedByClass) {
  ConvertSource source{.place = "place", .description = {}, .train = {}, .validation = {}, .test = {}};
  source.train = invented({.count = 25, .ordered = true});
  convertDataset(source, to_, ConvertTarget::Tfrecord);
  EXPECT_EQ(written("validation.tfrecords"), (std::vector<int>{9, 19}));
  EXPECT_EQ(written("train.tfrecords").size(), 23u);
}

TEST_F(Convert, SpreadsARemainderOverTheFirstBatches) {
  ConvertSource source{.place = "place", .description = {}, .train = {}, .validation = {}, .test = {}};
  source.train = invented({.count = 7});
  source.test = invented({.first = 7, .count = 1});
  const ConvertReport report = convertDataset(source, to_, ConvertTarget::Binary);
  std::vector<std::int64_t> counts;
  for (const ConvertedFile& file : report.files) counts.push_back(file.images);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(imagesOf(*openCifar10(to_, Split::Train)), range(0, 7));
  EXPECT_EQ(imagesOf(*openCifar10(to_, Split::Test)), range(7, 8));
}

TEST_F(Convert, KeepsTheNamesOfTenClasses) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  ConvertSource source{.place = "place", .description = {}, .train = {}, .validation = {}, .test = {}};
  source.train = invented({.count = 5, .names = names});
  source.test = invented({.count = 5, .names = names});
  convertDataset(source, to_, ConvertTarget::Binary);
  EXPECT_EQ(openCifar10(to_, Split::Train)->classNames(), names);
}

TEST_F(Convert, RefusesWhatDoesNotFit) {
  ConvertSource source{.place = "place", .description = {}, .train = {}, .validation = {}, .test = {}};
  for (const ConvertTarget target : {ConvertTarget::Tfrecord, ConvertTarget::Binary}) {
    source.test = invented({.count = 1});
    source.train = invented({.count = 10, .shape = {.channels = 1, .height = 28, .width = 28}});
    EXPECT_MENTIONS(refusal(source, target), "28x28 pixels and 1 channel,");
    source.train = invented({.count = 10, .shape = {.channels = 3, .height = 0, .width = 0}});
    EXPECT_MENTIONS(refusal(source, target), "differ in size");
    source.train = invented({.count = 10});
    source.test = invented({.count = 1, .shape = {.channels = 3, .height = 64, .width = 64}});
    EXPECT_MENTIONS(refusal(source, target), "64x64 pixels");
  }
  source.test = invented({.count = 1});
  source.train = invented({.count = 10, .names = std::vector<std::string>(11, "x")});
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Binary), "11 classes");
  source.train = invented({.count = 10, .names = {"rose", "tulip"}});
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Binary), "2 classes");
  source.train = invented({.count = 4});
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Binary), "4 training images");
  source.train = nullptr;
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Binary), "0 training images");
  source.train = invented({.count = 10});
  source.test = nullptr;
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Binary), "no test images");
  source.train = nullptr;
  EXPECT_MENTIONS(refusal(source, ConvertTarget::Tfrecord), "no images");
}

TEST_F(Convert, NeverReplacesAFile) {
  writeCifar10(from_.path(), 4, 2);
  fs::create_directories(to_);
  for (const char* name : {"train.tfrecords", "validation.tfrecords", "eval.tfrecords"}) {
    writeTestFile(to_ / name, "mine");
    EXPECT_MENTIONS(errorOf<UsageError>([&] { convertDataset(from_.path(), to_, ConvertTarget::Tfrecord); }),
                    (to_ / name).string() + " exists already");
    EXPECT_EQ(readWholeFile(to_ / name), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(to_), {}), 1);
    fs::remove(to_ / name);
  }
  EXPECT_THROW(convertDataset(from_.path(), from_.path(), ConvertTarget::Binary), UsageError);
  EXPECT_TRUE(readWholeFile(from_ / "data_batch_1.bin") == cifar10File(0, 4));
}

TEST_F(Convert, LeavesNothingWhereAnImageIsDamaged) {
  ConvertSource source{.place = "place", .description = {}, .train = {}, .validation = {}, .test = {}};
  source.train = invented({.count = 20});
  source.test = invented({.count = 5, .damaged = 3});
  for (const ConvertTarget target : {ConvertTarget::Tfrecord, ConvertTarget::Binary}) {
    EXPECT_THROW(convertDataset(source, to_, target), IoError);
    EXPECT_TRUE(fs::is_empty(to_));
  }
}

TEST_F(Convert, NeedsAFolderForItsFiles) {
  writeCifar10(from_.path(), 1, 1);
  writeTestFile(outer_ / "file", "");
  EXPECT_THROW(convertDataset(from_.path(), outer_ / "file", ConvertTarget::Tfrecord), UsageError);
  EXPECT_THROW(convertDataset(from_.path(), outer_ / "file/below", ConvertTarget::Tfrecord), UsageError);
  EXPECT_THROW(convertDataset(outer_.path(), to_, ConvertTarget::Tfrecord), UsageError);
}

// PNG images of another program, kept pixel by pixel.
TEST_F(Convert, UnpacksCompressedImages) {
  const char* vectors = std::getenv("COHORT_TEST_VECTORS");
  if (vectors == nullptr) GTEST_SKIP() << "COHORT_TEST_VECTORS does not name a folder";
  const fs::path from = fs::path(vectors) / "tfx-cifar10_train.tfrecord";
  const ConvertReport report = convertDataset(from, to_, ConvertTarget::Tfrecord);
  ASSERT_EQ(report.files.size(), 2u);
  EXPECT_EQ(report.files[0].images, 116);
  EXPECT_EQ(report.files[1].images, 12);
  const auto before = openTfrecords(from, Split::Train);
  const auto after = openTfrecords(to_, Split::Validation);
  Image a;
  Image b;
  for (std::int64_t i = 0; i < 12; ++i) {
    before->read(116 + i, {}, a);
    after->read(i, {}, b);
    EXPECT_EQ(a.pixels, b.pixels);
    EXPECT_EQ(before->label(116 + i), after->label(i));
  }
}

}  // namespace
}  // namespace cohort
