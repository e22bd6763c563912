#include "launch/folders.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

TEST(Folders, AreMadeWithThoseAbove) {
  const TestDirectory scratch;
  const std::filesystem::path path = scratch.path() / "a" / "b";
  makeFolder(path);
  makeFolder(path);
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST(Folders, BelowAFileOrInItsPlaceAreRefused) {
  const TestDirectory scratch;
  const std::filesystem::path file = scratch.path() / "file";
  writeWholeFile(file, "");
  for (const std::filesystem::path& path : {file / "below", file}) {
    EXPECT_MENTIONS(errorOf<IoError>([&] { makeFolder(path); }), "cannot make the folder " + path.string());
  }
}

TEST(Folders, ForTemporaryFilesMustBeThere) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nonexistent", 1);
  const std::string error = errorOf<IoError>([] { temporaryFolder(); });
  if (before == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
  EXPECT_MENTIONS(error, "cannot use /nonexistent for temporary files");
  EXPECT_TRUE(std::filesystem::is_directory(temporaryFolder()));
}

}  // namespace
}  // namespace cohort
