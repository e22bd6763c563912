#include "launch/find_program.h"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {

namespace fs = std::filesystem;

std::optional<fs::path> findProgram(const std::string& name) {
  const auto isProgram = [](const fs::path& path) {
    std::error_code ignored;
    return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, ignored);
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos)
    return isProgram(name) ? std::optional(fs::path(name)) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::size_t colon = rest.find(':');
    fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    if (isProgram(candidate)) return candidate;
    if (colon == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(colon + 1);
  }
}

fs::path findProgram(const std::string& name, const std::string& why) {
  if (std::optional<fs::path> found = findProgram(name)) return *std::move(found);
  throw UsageError(fmt::format("{} is not installed, {}", name, why));
}

}  // namespace cohort
