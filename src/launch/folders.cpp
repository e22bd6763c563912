#include "launch/folders.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

namespace fs = std::filesystem;

void makeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw IoError(fmt::format("cannot make the folder {}: {}", path.string(), error.message()));
}

fs::path temporaryFolder() {
  std::error_code error;
  fs::path path = fs::temp_directory_path(error);
  if (!error) return path;
  const char* given = std::getenv("TMPDIR");
  throw IoError(fmt::format("cannot use {} for temporary files: {}; set TMPDIR to a folder",
                            given == nullptr ? "/tmp" : given, error.message()));
}

}  // namespace cohort
