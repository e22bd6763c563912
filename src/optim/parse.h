// Small readers for the texts that users write: numbers and lists, refused with sentences.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cohort::parse {

std::string_view trimmed(std::string_view text);

// "a,b,c" -> {"a", "b", "c"}, each trimmed; an empty text has one empty item.
std::vector<std::string_view> split(std::string_view text, char separator);

// A finite number, `what` names it in the UsageError: "the factor of schedule 'steps:5,x'".
double number(std::string_view text, std::string_view what);
double numberFromZero(std::string_view text, std::string_view what);  // >= 0

// A whole number >= 1.
std::int64_t positiveCount(std::string_view text, std::string_view what);

}  // namespace cohort::parse
