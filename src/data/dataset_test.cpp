#include "data/dataset.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"

namespace cohort {
namespace {

std::string usageErrorOf(const DatasetOptions& options) {
  try {
    openDataset(options, Split::Train);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

TEST(OpenDataset, NamesTheKnownOnesWhenTheNameIsUnknown) {
  EXPECT_EQ(usageErrorOf({.name = "mnits"}),
            "There is no dataset called 'mnits'; the datasets are fashion-mnist, mnist, synthetic.");
}

TEST(OpenDataset, GivesSyntheticDataOfAnyShape) {
  const auto dataset = openDataset(
      {.name = "synthetic", .channels = 2, .imageSize = 9, .classes = 7, .syntheticSize = 50}, Split::Train);
  EXPECT_EQ(dataset->shape(), (SampleShape{2, 9, 9}));
  EXPECT_EQ(dataset->classes(), 7);
  EXPECT_EQ(dataset->size(), 50);
  EXPECT_EQ(dataset->name(), "synthetic");
}

TEST(OpenDataset, GivesSyntheticDefaults) {
  const auto train = openDataset({.name = "synthetic"}, Split::Train);
  const auto test = openDataset({.name = "synthetic"}, Split::Test);
  EXPECT_EQ(train->shape(), (SampleShape{3, 32, 32}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->size(), 10'000);
  EXPECT_EQ(test->size(), 1'000);
}

TEST(OpenDataset, RefusesImpossibleSyntheticData) {
  EXPECT_NE(usageErrorOf({.name = "synthetic", .imageSize = -1}).find("-1x-1"), std::string::npos);
  EXPECT_NE(usageErrorOf({.name = "synthetic", .channels = -3}).find("-3 channels"), std::string::npos);
  EXPECT_NE(usageErrorOf({.name = "synthetic", .classes = -2}).find("-2"), std::string::npos);
  EXPECT_NE(usageErrorOf({.name = "synthetic", .syntheticSize = -5}).find("-5"), std::string::npos);
}

TEST(OpenDataset, RefusesSizesThatTheImagesDoNotHave) {
  const TestDirectory directory;
  writeTestFile(directory / "train-images-idx3-ubyte",
                std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02", 16) + "abcd");
  writeTestFile(directory / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x05", 9));
  const auto dataset = openDataset(
      {.name = "mnist", .directory = directory.path(), .channels = 1, .imageSize = 2}, Split::Train);
  EXPECT_EQ(dataset->name(), "mnist");
  const std::string size = usageErrorOf({.name = "mnist", .directory = directory.path(), .imageSize = 3});
  EXPECT_NE(size.find("2x2"), std::string::npos) << size;
  EXPECT_NE(size.find("3x3"), std::string::npos) << size;
  const std::string channels = usageErrorOf({.name = "mnist", .directory = directory.path(), .channels = 3});
  EXPECT_NE(channels.find("1 channel, but 3"), std::string::npos) << channels;
}

}  // namespace
}  // namespace cohort
