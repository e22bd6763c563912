#include "doctor/memory.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

class GroupMemory : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  TestDirectory directory_;
  fs::path root_ = directory_.path();
};

TEST(MachineMemory, IsWhatIsAvailableAndNotWhatIsFree) {
  EXPECT_EQ(machineMemory("MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:   400 kB\n"),
            (Memory{.total = 1'024'000, .free = 409'600}));
  EXPECT_EQ(machineMemory(""), Memory{});
}

TEST_F(GroupMemory, IsTheTightestOfAllGroupsAround) {
  write("memory.max", "max\n");
  write("slurm/memory.max", "5000\n");
  write("slurm/memory.current", "4000\n");
  write("slurm/memory.stat", "anon 10\ninactive_file 300\n");
  write("slurm/step/memory.max", "2000\n");
  write("slurm/step/memory.current", "100\n");
  EXPECT_EQ(groupMemory("0::/slurm/step\n", root_), (Memory{.total = 2000, .free = 1300}));
}

TEST_F(GroupMemory, OfVersionOne) {
  write("memory/job/memory.limit_in_bytes", "3000\n");
  write("memory/job/memory.usage_in_bytes", "1000\n");
  write("memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 50\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(groupMemory("5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n", root_),
            (Memory{.total = 3000, .free = 2050}));
}

TEST_F(GroupMemory, IsNothingWhereNothingIsLimited) {
  write("memory.max", "max\n");
  EXPECT_EQ(groupMemory("0::/\n", root_), std::nullopt);
  EXPECT_EQ(groupMemory("", root_), std::nullopt);
  EXPECT_EQ(groupMemory("nonsense\n1:memory\n", root_), std::nullopt);
}

TEST(AvailableMemory, OfThisMachineIsMoreThanNothing) {
  EXPECT_GT(availableMemory().free, 0);
  EXPECT_LE(availableMemory().free, availableMemory().total);
}

}  // namespace
}  // namespace cohort
