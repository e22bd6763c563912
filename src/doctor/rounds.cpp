#include "doctor/rounds.h"

#include <algorithm>

namespace cohort {

std::vector<std::vector<std::pair<int, int>>> tournament(int count) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  if (count < 2) return rounds;
  // All but the last sit in a circle, which turns by one from round to round; who faces nobody meets the last, who is an empty
  // seat where the number is odd.
  const int seats = count + count % 2;
  const int circle = seats - 1;
  for (int round = 0; round < circle; ++round) {
    std::vector<std::pair<int, int>>& pairs = rounds.emplace_back();
    const auto meet = [&](int a, int b) {
      if (a < count && b < count) pairs.emplace_back(std::min(a, b), std::max(a, b));
    };
    meet(round, circle);
    for (int i = 1; i < seats / 2; ++i) meet((round + i) % circle, (round + circle - i) % circle);
  }
  return rounds;
}

}  // namespace cohort
