// Texts that others wrote, as numbers and in sentences. Private to cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

// Of digits alone, and no larger than an int; nothing for any other text.
std::optional<int> wholeNumber(std::string_view text);

// 'text' for a sentence: what no terminal should see as \x1b, and no more of it than one reads.
std::string inQuotes(std::string_view text);

// "1 task", "3 tasks".
std::string counted(std::size_t count, std::string_view what);

}  // namespace cohort
