#include "base/nearest.h"

#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

const std::vector<std::string> kFlags{"--train-steps", "--lr", "--keep", "--network"};

TEST(NearestWord, FindsWhatATypoMeant) {
  EXPECT_EQ(nearestWord("--trian-steps", kFlags), "--train-steps");
  EXPECT_EQ(nearestWord("--netwrk", kFlags), "--network");
  EXPECT_EQ(nearestWord("--kep", kFlags), "--keep");
  EXPECT_EQ(nearestWord("--lr", kFlags), "--lr");
}

TEST(NearestWord, OffersNothingForAnotherWord) {
  EXPECT_EQ(nearestWord("--completely-different", kFlags), "");
  EXPECT_EQ(nearestWord("foo", kFlags), "");
  EXPECT_EQ(nearestWord("x", {}), "");
}

}  // namespace
}  // namespace cohort
