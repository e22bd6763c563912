#include "center/coverage.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Coverage, RefusesWhatIsThereInPart) {
  Coverage coverage;
  EXPECT_TRUE(coverage.add({10, 20}));
  EXPECT_TRUE(coverage.add({30, 40}));
  for (const ArenaRange& range :
       std::vector<ArenaRange>{{10, 20}, {12, 13}, {5, 11}, {19, 25}, {5, 25}, {19, 31}, {20, 31}, {0, 100}})
    EXPECT_FALSE(coverage.add(range)) << range.begin << "-" << range.end;
  EXPECT_EQ(coverage.covered(), 20U);
  EXPECT_TRUE(coverage.add({20, 30}));
  EXPECT_TRUE(coverage.add({0, 10}));
  EXPECT_EQ(coverage.covered(), 40U);
}

TEST(Coverage, IsOneStretchWhereNeighboursMeet) {
  Coverage coverage;
  for (std::size_t at = 0; at < 100; at += 2) EXPECT_TRUE(coverage.add({at, at + 1}));
  EXPECT_EQ(coverage.stretches(), 50U);
  for (std::size_t at = 99; at < 100; at -= 2) EXPECT_TRUE(coverage.add({at, at + 1}));
  EXPECT_EQ(coverage.stretches(), 1U);
  EXPECT_EQ(coverage.covered(), 100U);
  EXPECT_FALSE(coverage.add({50, 51}));
  EXPECT_TRUE(coverage.add({100, 101}));
  EXPECT_EQ(coverage.stretches(), 1U);
}

TEST(Coverage, AgreesWithAFlagForEachFloat) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    Coverage coverage;
    std::vector<bool> flags(60);
    for (int i = 0; i < 40; ++i) {
      const std::size_t begin = random() % 59;
      const std::size_t end = begin + 1 + random() % std::min<std::size_t>(8, 60 - begin);
      bool isFree = true;
      for (std::size_t at = begin; at < end; ++at) isFree = isFree && !flags[at];
      ASSERT_EQ(coverage.add({begin, end}), isFree);
      for (std::size_t at = begin; isFree && at < end; ++at) flags[at] = true;
    }
    std::size_t stretches = flags[0] ? 1 : 0;
    for (std::size_t at = 1; at < flags.size(); ++at) stretches += flags[at] && !flags[at - 1] ? 1 : 0;
    ASSERT_EQ(coverage.stretches(), stretches);
    ASSERT_EQ(coverage.covered(), static_cast<std::size_t>(std::count(flags.begin(), flags.end(), true)));
  }
}

}  // namespace
}  // namespace cohort
