// Lists of small numbers as people write them: ranks, cores. "0-3,8" is 0 1 2 3 8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// Each number once, in the order of the text; UsageErrors that name `source`. At most 65,536.
std::vector<int> parseNumberList(std::string_view text, const std::string& source);

// The inverse, for numbers in any order.
std::string numberListText(const std::vector<int>& numbers);

}  // namespace cohort
