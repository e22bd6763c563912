// What is said where the system refuses something to do with a file.
#pragma once

#include <filesystem>
#include <string_view>

namespace cohort {

// IoError "Cannot open a/b: No such file or directory." for ("open", "a/b", errno).
[[noreturn]] void throwFileError(std::string_view what, const std::filesystem::path& path, int errorNumber);

}  // namespace cohort
