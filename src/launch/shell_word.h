// Words for a shell's command line. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// The word as it is where a shell takes it so, and in single quotes where not.
std::string shellWord(std::string_view word);
// All of them, one after the other.
std::string shellLine(const std::vector<std::string>& words);

}  // namespace cohort
