#include "launch/worker_log.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

TEST(WorkerLog, HasTheRunsStepAndTheWorkersInEveryLineOfACenter) {
  const TestDirectory job;
  WorkerLog log(job.path(), "vm-17", WorkerLog::Counts::RunAndOwn);
  log.warned("before the start");
  RunObserver::Started started;
  started.startStep = 40;
  log.started(started);
  log.worked({.ownSteps = 3, .step = 50, .loss = 1});
  log.checkpointed(60);
  const std::string text = readWholeFile(job / "logs" / "worker-vm-17.txt");
  for (const char* part : {" step 0, own step 0: warning: before", " step 40, own step 0: ",
                           " step 50, own step 3: loss 1.0000", " step 60, own step 3: checkpoint\n"}) {
    EXPECT_MENTIONS(text, part);
  }
}

TEST(WorkerLog, HasOneNumberWhereAllStepTogether) {
  const TestDirectory job;
  WorkerLog log(job.path(), "1");
  log.checkpointed(60);
  EXPECT_MENTIONS(readWholeFile(job / "logs" / "worker-1.txt"), " step 60: checkpoint\n");
}

}  // namespace
}  // namespace cohort
