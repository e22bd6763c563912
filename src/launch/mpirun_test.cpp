#include "launch/mpirun.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

TEST(MpirunDeath, IsReadFromItsLastWords) {
  const TestDirectory directory;
  const auto log = directory / "group-0.txt";
  const std::string earlier =
      "mpirun noticed that process rank 7 with PID 0 on node vm exited on signal 11 (Segmentation fault).\n";
  std::ofstream(log) << earlier;
  EXPECT_EQ(readMpirunDeath(log, earlier.size()).rank, -1);
  std::ofstream(log, std::ios::app)
      << "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n";
  const MpirunDeath death = readMpirunDeath(log, earlier.size());
  EXPECT_EQ(death.rank, 1);
  EXPECT_EQ(death.signal, 9);
  EXPECT_EQ(readMpirunDeath(log, 0).rank, 7);
}

}  // namespace
}  // namespace cohort
