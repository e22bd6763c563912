// A folder that is removed again. Private to cli.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include "base/error.h"

namespace cohort {

class ScratchFolder {
 public:
  // "BEGIN-XXXXXX".
  explicit ScratchFolder(const std::filesystem::path& begin) {
    std::string name = begin.string() + "-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw IoError(fmt::format("cannot make a folder {}", name));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cohort
