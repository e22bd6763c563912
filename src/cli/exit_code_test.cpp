#include "cli/exit_code.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

TEST(ExitCode, FollowsWhoCanDoSomethingAboutIt) {
  EXPECT_EQ(exitCodeOf(UsageError("")), 2);
  EXPECT_EQ(exitCodeOf(IoError("")), 3);
  EXPECT_EQ(exitCodeOf(PeerError("")), 4);
  EXPECT_EQ(exitCodeOf(std::runtime_error("")), 1);
}

}  // namespace
}  // namespace cohort
