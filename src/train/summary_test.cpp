#include "train/summary.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

RunSummary twentySteps() {
  RunSummary summary;
  summary.startStep = 10;
  summary.step = 30;
  summary.batchSize = 50;
  return summary;
}

TEST(MovedBytes, AreTheWorkersOwnWithoutACenter) {
  RunSummary summary = twentySteps();
  summary.workers.resize(2);
  summary.workers[0].sentBytesPerStep = 1000;
  summary.workers[1].sentBytesPerStep = 2000;
  EXPECT_DOUBLE_EQ(summary.movedBytesPerSample(), 3000.0 / 50);
}

TEST(MovedBytes, AreTheServersWithACenter) {
  RunSummary summary = twentySteps();
  summary.center.resize(2);
  summary.center[0].bytesReceived = 1000;
  summary.center[1].bytesSent = 3000;
  EXPECT_DOUBLE_EQ(summary.movedBytesPerSample(), 4000.0 / (20 * 50));
}

TEST(MovedBytes, OfVirtualRunsAreThoseOfTheirCables) {
  RunSummary summary = twentySteps();
  summary.inVirtualTime = RunSummary::Virtual{.outcome = {}, .workers = 1, .servers = 0, .samples = 200};
  summary.inVirtualTime->outcome.bytes = 1000;
  EXPECT_DOUBLE_EQ(summary.movedBytesPerSample(), 5);
}

TEST(MovedBytes, AreNoneBeforeTheFirstSample) {
  EXPECT_EQ(RunSummary{}.movedBytesPerSample(), 0);
}

}  // namespace
}  // namespace cohort
