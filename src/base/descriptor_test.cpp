#include "base/descriptor.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

bool isOpen(int number) {
  return ::fcntl(number, F_GETFD) >= 0;
}

Descriptor openSomething() {
  Descriptor opened(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(opened);
  EXPECT_TRUE(isOpen(opened.get()));
  return opened;
}

TEST(Descriptor, ClosesWhenItsOwnerGoes) {
  int number = -1;
  {
    const Descriptor opened = openSomething();
    number = opened.get();
  }
  EXPECT_FALSE(isOpen(number));
}

TEST(Descriptor, ChangesItsOwner) {
  Descriptor first = openSomething();
  const int number = first.get();
  const Descriptor second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what a move leaves is what is tested
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(isOpen(number));
}

TEST(Descriptor, ClosesWhatAnAssignmentReplaces) {
  Descriptor kept = openSomething();
  const int replaced = kept.get();
  Descriptor given = openSomething();
  const int number = given.get();
  kept = std::move(given);
  EXPECT_FALSE(isOpen(replaced));
  EXPECT_EQ(kept.get(), number);
  EXPECT_TRUE(isOpen(number));
}

TEST(Descriptor, IsNothingAndKeepsErrnoWhereOpeningFailed) {
  Descriptor opened;
  opened = Descriptor(::open("/dev/null/nothing", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_FALSE(opened);
  EXPECT_EQ(opened.close(), 0);
}

TEST(Descriptor, TellsWhatClosingFound) {
  Descriptor opened = openSomething();
  const int number = opened.get();
  EXPECT_EQ(opened.close(), 0);
  EXPECT_FALSE(opened);
  EXPECT_FALSE(isOpen(number));
  Descriptor stale(number);
  EXPECT_EQ(stale.close(), EBADF);
  EXPECT_FALSE(stale);
}

}  // namespace
}  // namespace cohort
