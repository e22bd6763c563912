// For tests only: a folder that lives as long as the object, and files to put there.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/scratch_folder.h"

namespace cohort {

class TestDirectory : public ScratchFolder {
 public:
  TestDirectory() : ScratchFolder(std::filesystem::temp_directory_path() / "cohort-test") {}

  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
};

// Quick: does not wait for the disk.
inline void writeTestFile(const std::filesystem::path& path, std::string_view contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace cohort
