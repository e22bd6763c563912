#include "data/dataset.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Dataset> openSplit(std::string_view name, const DatasetOptions& options,
                                   Split split = Split::Train) {
  return builtinDatasets().find(name).open(options)->open(split);
}

std::string usageErrorOf(std::string_view name, const DatasetOptions& options) {
  return errorOf<UsageError>([&] { openSplit(name, options); });
}

TEST(Datasets, AreListedWithTheNearestWhenANameIsUnknown) {
  EXPECT_EQ(usageErrorOf("cifar-10", {}),
            "There is no dataset called 'cifar-10' (did you mean 'cifar10'?); the datasets are "
            "fashion-mnist, mnist, "
            "cifar10, cifar100, flowers, folder, synthetic.");
}

TEST(Datasets, OfOnesOwnAreFoundByName) {
  DatasetRegistry registry = builtinDatasets();
  registry.add({.name = "mine", .description = "a test", .open = registry.find("synthetic").open});
  EXPECT_EQ(registry.find("mine").open({.samples = 20})->open(Split::Train)->size(), 20);
  EXPECT_THROW(registry.add({.name = "mine", .description = "", .open = {}}), UsageError);
}

TEST(Datasets, GiveSyntheticDataOfAnyShape) {
  const auto dataset =
      openSplit("synthetic", {.channels = 2, .imageSize = 9, .classes = 7, .samples = 50, .testSamples = 5});
  EXPECT_EQ(dataset->shape(), (SampleShape{2, 9, 9}));
  EXPECT_EQ(dataset->classes(), 7);
  EXPECT_EQ(dataset->size(), 50);
  EXPECT_FALSE(dataset->costly());
  EXPECT_EQ(openSplit("synthetic", {.samples = 50, .testSamples = 5}, Split::Test)->size(), 5);
}

TEST(Datasets, GiveSyntheticDefaults) {
  const auto train = openSplit("synthetic", {});
  EXPECT_EQ(train->shape(), (SampleShape{3, 32, 32}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->size(), 10'000);
  EXPECT_EQ(openSplit("synthetic", {}, Split::Test)->size(), 1'000);
}

TEST(Datasets, RefuseImpossibleSyntheticData) {
  EXPECT_MENTIONS(usageErrorOf("synthetic", {.imageSize = -1}), "-1x-1");
  EXPECT_MENTIONS(usageErrorOf("synthetic", {.channels = -3}), "-3 channels");
  EXPECT_MENTIONS(usageErrorOf("synthetic", {.classes = -2}), "-2");
  EXPECT_MENTIONS(usageErrorOf("synthetic", {.samples = -5}), "-5");
  EXPECT_MENTIONS(usageErrorOf("synthetic", {.transforms = "flip"}), "--transforms flip");
}

// One grey image of 2x2 pixels.
void writeIdx(const fs::path& directory, const std::string& prefix) {
  writeTestFile(directory / (prefix + "-images-idx3-ubyte"),
                std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02", 16) + "abcd");
  writeTestFile(directory / (prefix + "-labels-idx1-ubyte"), std::string("\0\0\x08\x01\0\0\0\x01\x05", 9));
}

TEST(Datasets, RefuseSizesThatTheImagesDoNotHave) {
  const TestDirectory directory;
  writeIdx(directory.path(), "train");
  writeIdx(directory.path(), "t10k");
  EXPECT_EQ(openSplit("mnist", {.directory = directory.path(), .channels = 1, .imageSize = 2})->size(), 1);
  const std::string size = usageErrorOf("mnist", {.directory = directory.path(), .imageSize = 3});
  EXPECT_MENTIONS(size, "2x2");
  EXPECT_MENTIONS(size, "--transforms resize:3x3");
  const std::string channels = usageErrorOf("mnist", {.directory = directory.path(), .channels = 3});
  EXPECT_MENTIONS(channels, "1 channel, but 3");
}

TEST(Datasets, NormaliseTheClassicSetsByWhatIsKnownOfThem) {
  const TestDirectory directory;
  writeIdx(directory.path(), "train");
  writeIdx(directory.path(), "t10k");
  std::vector<float> pixels(4);
  EXPECT_EQ(openSplit("mnist", {.directory = directory.path()})->read(0, 0, pixels), 5);
  EXPECT_NEAR(pixels[3], ('d' / 255.0f - 0.1307f) / 0.3081f, 1e-6f);
}

TEST(Datasets, AreLookedForInTheDataFolder) {
  const TestDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  const std::string absent = usageErrorOf("mnist", {});
  EXPECT_MENTIONS(absent, "data/mnist");
  EXPECT_MENTIONS(absent, "cohort data fetch mnist");
  fs::create_directories("data/mnist");
  const std::string empty = usageErrorOf("mnist", {});
  EXPECT_MENTIONS(empty, "data/mnist holds no images");
  writeIdx("data/mnist", "train");
  writeIdx("data/mnist", "t10k");
  EXPECT_EQ(openSplit("mnist", {})->size(), 1);
  fs::current_path(before);
  const std::string given = usageErrorOf("mnist", {.directory = directory / "nowhere"});
  EXPECT_MENTIONS(given, "nowhere does not exist");
  EXPECT_MENTIONS(usageErrorOf("folder", {}), "--data-dir");
}

TEST(Datasets, OfThePackageHaveAllTheirSamples) {
  const fs::path package = "/usr/share/datasets/fashion-mnist";
  if (!fs::is_directory(package)) GTEST_SKIP() << package << " is absent: install dataset-fashion-mnist";
  const auto source = builtinDatasets().find("fashion-mnist").open({.directory = package});
  const auto train = source->open(Split::Train);
  EXPECT_EQ(source->open(Split::Test)->size(), 10000);
  EXPECT_EQ(train->size(), 60000);
  std::vector<std::int64_t> perClass(10);
  std::vector<float> pixels(train->shape().count());
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < train->size(); ++i) {
    ++perClass[static_cast<std::size_t>(train->read(i, i, pixels))];
    for (const double pixel : pixels) {
      sum += pixel;
      squares += pixel * pixel;
    }
  }
  const auto n = static_cast<double>(train->size()) * static_cast<double>(pixels.size());
  EXPECT_EQ(perClass, std::vector<std::int64_t>(10, 6000));
  EXPECT_NEAR(sum / n, 0, 0.001);
  EXPECT_NEAR(squares / n, 1, 0.001);
}

}  // namespace
}  // namespace cohort
