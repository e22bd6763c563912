#include "launch/worker_hosts.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(WorkerHosts, AreNamedWhereThereAreSeveral) {
  const std::vector<WorkerCores> workers = {{.host = "h1", .allowed = {}}, {.host = "h2", .allowed = {}}};
  EXPECT_EQ(withHosts("worker 0 waited 60 s for worker 1: its part of step 5", workers),
            "worker 0 on h1 waited 60 s for worker 1 on h2: its part of step 5");
  EXPECT_EQ(withHosts("worker 1 on h2 gave no sign of life; worker 0 waits", workers),
            "worker 1 on h2 gave no sign of life; worker 0 on h1 waits");
  EXPECT_EQ(withHosts("another worker to take it; worker 7, worker 99999999999999999999, worker x", workers),
            "another worker to take it; worker 7, worker 99999999999999999999, worker x");
}

TEST(WorkerHosts, AreNotNamedWhereThereIsOne) {
  const std::vector<WorkerCores> workers = {{.host = "h1", .allowed = {}}, {.host = "h1", .allowed = {}}};
  EXPECT_EQ(withHosts("worker 0 waited for worker 1", workers), "worker 0 waited for worker 1");
  EXPECT_EQ(withHosts("worker 0 waited for worker 1", {}), "worker 0 waited for worker 1");
}

}  // namespace
}  // namespace cohort
