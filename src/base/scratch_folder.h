// A folder that is removed again, with all that is in it.
#pragma once

#include <filesystem>

namespace cohort {

class ScratchFolder {
 public:
  // "BEGIN-XXXXXX". IoError where it cannot be made.
  explicit ScratchFolder(const std::filesystem::path& begin);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cohort
