// The variables that a process was started with, given by whoever asks: nothing in this module reads the process's own, so that
// every answer is a pure function and every environment can be invented.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

using Environment = std::map<std::string, std::string, std::less<>>;

bool isSet(const Environment& environment, std::string_view name);

// Nothing where it is not set.
std::optional<std::string> textOf(const Environment& environment, std::string_view name);

// The same as a number from 0 on; UsageError where the text is none.
std::optional<int> numberOf(const Environment& environment, std::string_view name);

// UsageErrors where they are not set, of which `context` says what else tells that they should be.
std::string requireText(const Environment& environment, std::string_view name, std::string_view context);
int requireNumber(const Environment& environment, std::string_view name, std::string_view context);

}  // namespace cohort
