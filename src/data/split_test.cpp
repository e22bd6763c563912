#include "data/split.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/image_vectors.h"

namespace cohort {
namespace {

ComputedImages images(std::int64_t size, bool orderedByClass = false) {
  return {
      size, {1, 1, 1}, 5, [](std::int64_t i, int, int, int) { return static_cast<int>(i); }, orderedByClass};
}

TrainingCut cut(const ImageSet& set, const std::string& validation, const std::string& test) {
  return cutTraining(set, parseSplitPart(validation, "--validation-split"),
                     parseSplitPart(test, "--test-split"));
}

// Every image is in exactly one part.
void expectWhole(const TrainingCut& parts, std::int64_t size) {
  std::set<std::int64_t> seen;
  for (const auto& part : {parts.train, parts.validation, parts.test}) {
    EXPECT_TRUE(std::ranges::is_sorted(part));
    for (const std::int64_t i : part) EXPECT_TRUE(seen.insert(i).second) << i;
  }
  EXPECT_EQ(std::ssize(seen), size);
}

TEST(SplitPart, IsReadFromText) {
  EXPECT_EQ(parseSplitPart("", "--test-split").kind, SplitPart::Kind::Default);
  EXPECT_EQ(parseSplitPart("files", "--test-split").kind, SplitPart::Kind::Files);
  EXPECT_EQ(parseSplitPart("none", "--test-split").kind, SplitPart::Kind::None);
  EXPECT_EQ(parseSplitPart("5000", "--test-split").count, 5000);
  EXPECT_EQ(parseSplitPart("12.5%", "--test-split").percent, 12.5);
  for (const char* text : {"-3", "5000.5", "0%", "100%", "x%", "%", "half", "nan%"}) {
    EXPECT_THROW(parseSplitPart(text, "--test-split"), UsageError) << text;
  }
}

TEST(Split, ByCountTakesTheLastOnes) {
  const TrainingCut parts = cut(images(100), "10", "5");
  expectWhole(parts, 100);
  EXPECT_EQ(parts.test, (std::vector<std::int64_t>{95, 96, 97, 98, 99}));
  EXPECT_EQ(parts.validation.front(), 85);
  EXPECT_EQ(parts.validation.size(), 10u);
}

TEST(Split, ByCountOfFilesInClassOrderTakesFromAllClasses) {
  const ComputedImages set = images(1000, true);
  const TrainingCut parts = cut(set, "100", "100");
  expectWhole(parts, 1000);
  std::vector<int> perClass(5);
  for (const std::int64_t i : parts.test) ++perClass[static_cast<std::size_t>(set.label(i))];
  for (const int count : perClass) EXPECT_NEAR(count, 20, 14);
}

TEST(Split, ByShareKeepsANameWhereItIsWhenOthersCome) {
  const TrainingCut small = cut(images(1000), "10%", "20%");
  const TrainingCut large = cut(images(2000), "10%", "20%");
  expectWhole(small, 1000);
  EXPECT_NEAR(static_cast<double>(small.validation.size()), 100, 40);
  EXPECT_NEAR(static_cast<double>(small.test.size()), 200, 60);
  EXPECT_TRUE(std::ranges::includes(large.test, small.test));
  EXPECT_TRUE(std::ranges::includes(large.validation, small.validation));
  EXPECT_TRUE(std::ranges::includes(large.train, small.train));
}

TEST(Split, ThatLeavesNothingIsRefused) {
  EXPECT_THROW(cut(images(100), "100", "none"), UsageError);
  EXPECT_THROW(cut(images(100), "60", "40"), UsageError);
  EXPECT_THROW(cut(images(100), "60%", "40%"), UsageError);
  EXPECT_THROW(cut(images(3), "0.01%", "none"), UsageError);
}

TEST(SelectImages, GivesTheSameImagesUnderNewNumbers) {
  const auto set = std::make_shared<ComputedImages>(images(20));
  const auto some = selectImages(set, {3, 17});
  Image image;
  some->read(1, {}, image);
  EXPECT_EQ(some->size(), 2);
  EXPECT_EQ(image.pixels[0], 17);
  EXPECT_EQ(some->label(1), 2);
  EXPECT_EQ(some->nameOf(0), "image-3");
}

}  // namespace
}  // namespace cohort
