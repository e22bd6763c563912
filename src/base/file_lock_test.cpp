#include "base/file_lock.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

TEST(FileLock, IsHeldUntilItsDescriptorGoes) {
  const TestDirectory directory;
  Descriptor held = tryLock(directory / "lock");
  ASSERT_TRUE(held);
  EXPECT_TRUE(isLocked(directory / "lock"));
  errno = 0;
  EXPECT_FALSE(tryLock(directory / "lock"));
  EXPECT_EQ(errno, EWOULDBLOCK);
  held.close();
  EXPECT_FALSE(isLocked(directory / "lock"));
  EXPECT_TRUE(tryLock(directory / "lock"));
}

TEST(FileLock, IsNotMadeByLooking) {
  const TestDirectory directory;
  EXPECT_FALSE(isLocked(directory / "lock"));
  EXPECT_FALSE(std::filesystem::exists(directory / "lock"));
}

TEST(FileLock, SaysWhyItCannotBe) {
  const TestDirectory directory;
  EXPECT_FALSE(tryLock(directory / "nowhere" / "lock"));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace cohort
