#include "launch/worker_watch.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(StallLimits, LeaveAWorkerTimeToWaitForAServer) {
  EXPECT_GT(stallLimits(3, 60).stillSeconds, 60);
  EXPECT_EQ(stallLimits(3, 60).silentSeconds, 3);
  EXPECT_EQ(stallLimits(300, 60).stillSeconds, 300);
}

}  // namespace
}  // namespace cohort
