// Which known word a user meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// The known word with the fewest inserted, deleted or changed characters from `word`; "" where every one is further
// away than a typo would be (more than a third of the word, at least 2).
std::string nearestWord(std::string_view word, std::span<const std::string> known);

// UsageError where `word` is none of the known ones, which are of this kind: "optimizer".
void requireWord(std::string_view kind, const std::string& word, const std::vector<std::string>& known);

}  // namespace cohort
