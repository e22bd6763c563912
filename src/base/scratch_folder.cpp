#include "base/scratch_folder.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include "base/file_error.h"

namespace cohort {

ScratchFolder::ScratchFolder(const std::filesystem::path& begin) {
  std::string name = begin.string() + "-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throwFileError("create", name, errno);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace cohort
