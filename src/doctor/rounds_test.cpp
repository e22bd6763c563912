#include "doctor/rounds.h"

#include <set>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Tournament, EverybodyMeetsEverybodyOnceAndNobodyTwoAtATime) {
  for (int count = 0; count <= 65; ++count) {
    std::set<std::pair<int, int>> met;
    const auto rounds = tournament(count);
    EXPECT_EQ(rounds.size(), static_cast<std::size_t>(count < 2 ? 0 : count - 1 + count % 2));
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_GE(a, 0);
        EXPECT_LT(b, count);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << count;
        EXPECT_TRUE(met.emplace(a, b).second) << count;
      }
    }
    EXPECT_EQ(met.size(),
              static_cast<std::size_t>(count) * static_cast<std::size_t>(std::max(count - 1, 0)) / 2);
  }
}

}  // namespace
}  // namespace cohort
