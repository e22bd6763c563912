// Programs by their names, as a shell finds them. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cohort {

// A name with a slash is a path; others are looked for in PATH. Nothing where it is not there.
std::optional<std::filesystem::path> findProgram(const std::string& name);
// UsageError "NAME is not installed, WHY" where it is not there.
std::filesystem::path findProgram(const std::string& name, const std::string& why);

}  // namespace cohort
