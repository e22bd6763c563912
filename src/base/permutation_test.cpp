#include "base/permutation.h"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::vector<std::uint64_t> orderOf(std::uint64_t n, std::uint64_t seed) {
  const KeyedPermutation permutation(n, philoxKey(seed, 1));
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < n; ++i) order.push_back(permutation(i));
  return order;
}

void expectBijection(std::uint64_t n) {
  std::vector<int> hits(n, 0);
  for (const std::uint64_t place : orderOf(n, n)) {
    ASSERT_LT(place, n);
    ++hits[place];
  }
  for (const int count : hits) ASSERT_EQ(count, 1) << "n = " << n;
}

TEST(KeyedPermutation, IsABijectionForEverySmallSize) {
  for (std::uint64_t n = 1; n <= 300; ++n) expectBijection(n);
}

TEST(KeyedPermutation, IsABijectionAroundPowersOfTwoAndForDatasetSizes) {
  for (const std::uint64_t n : {1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 9973u, 50000u, 60000u, 65537u}) {
    expectBijection(n);
  }
}

TEST(KeyedPermutation, StaysInsideHugeSizes) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 1;
  const KeyedPermutation permutation(n, philoxKey(3, 3));
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(permutation(n - 1 - i), n);
}

TEST(KeyedPermutation, TheSameKeyGivesTheSameOrderAndAnotherKeyAnother) {
  EXPECT_EQ(orderOf(1000, 1), orderOf(1000, 1));
  const auto first = orderOf(1000, 1);
  const auto second = orderOf(1000, 2);
  int equal = 0;
  for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(equal, 10);  // 1 is expected of two random orders
}

TEST(KeyedPermutation, LeavesNoTraceOfTheIndex) {
  // In a random order of n the mean distance between index and place is n / 3.
  const auto order = orderOf(30000, 5);
  double distance = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    distance += std::abs(static_cast<double>(order[i]) - static_cast<double>(i));
  }
  EXPECT_NEAR(distance / 30000, 10000, 200);
}

}  // namespace
}  // namespace cohort
