// Who meets whom, when everybody shall meet everybody once and nobody two at a time.
#pragma once

#include <utility>
#include <vector>

namespace cohort {

// A round is a list of pairs, the smaller number first; in each, everybody is at most once. count - 1 rounds of an even number,
// count rounds of an odd one.
std::vector<std::vector<std::pair<int, int>>> tournament(int count);

}  // namespace cohort
