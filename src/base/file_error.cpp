#include "base/file_error.h"

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

void throwFileError(std::string_view what, const std::filesystem::path& path, int errorNumber) {
  throw IoError(fmt::format("Cannot {} {}: {}.", what, path.string(), systemMessage(errorNumber)));
}

}  // namespace cohort
