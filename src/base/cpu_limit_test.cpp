#include "base/cpu_limit.h"

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

// A machine's files.
class Files {
 public:
  void write(const std::string& name, std::string_view text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    writeTestFile(folder_ / name, text);
  }
  std::optional<CpuLimit> limit() const { return cpuLimit(folder_.path()); }

 private:
  TestDirectory folder_;
};

constexpr const char* kSecond =
    "23 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kFirst =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";

TEST(CpuLimit, IsTheStrictestOfAllGroupsAbove) {
  Files files;
  files.write("proc/self/mountinfo", kSecond);
  files.write("proc/self/cgroup", "0::/a.slice/b.scope\n");
  files.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "400000 100000\n");
  files.write("sys/fs/cgroup/a.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(files.limit(), (CpuLimit{2.5, "/sys/fs/cgroup/a.slice"}));
  files.write("sys/fs/cgroup/a.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(files.limit(), (CpuLimit{4, "/sys/fs/cgroup/a.slice/b.scope"}));
  files.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(files.limit(), std::nullopt);
}

TEST(CpuLimit, OfVersionOneIsQuotaByPeriod) {
  Files files;
  files.write("proc/self/mountinfo", kFirst);
  files.write("proc/self/cgroup", "4:cpuset:/elsewhere\n1:cpuacct,cpu:/job/step\n0::/\n");
  files.write("sys/fs/cgroup/cpu/job/step/cpu.cfs_quota_us", "-1\n");
  files.write("sys/fs/cgroup/cpu/job/step/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(files.limit(), std::nullopt);
  files.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "75000\n");
  files.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(files.limit(), (CpuLimit{1.5, "/sys/fs/cgroup/cpu/job"}));
}

TEST(CpuLimit, OfAContainerIsAtItsMount) {
  // A container that sees its own group only, under the name that it has outside.
  Files files;
  files.write("proc/self/mountinfo", "32 31 0:29 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  files.write("proc/self/cgroup", "1:cpu:/docker/1f\n");
  files.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  files.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(files.limit(), (CpuLimit{1.5, "/sys/fs/cgroup/cpu"}));
  files.write("proc/self/cgroup", "1:cpu:/kubepods/2e\n");
  EXPECT_EQ(files.limit(), (CpuLimit{1.5, "/sys/fs/cgroup/cpu"})) << "of a group that is not to be seen here";
  files.write("proc/self/cgroup", "1:cpu:/docker/1f/below\n");
  EXPECT_EQ(files.limit(), (CpuLimit{1.5, "/sys/fs/cgroup/cpu"}));
}

TEST(CpuLimit, IsNoneWhereFilesAreMissingOrStrange) {
  Files files;
  EXPECT_EQ(files.limit(), std::nullopt);
  files.write("proc/self/mountinfo", std::string("strange\n\n- - -\n1 2 3 - cgroup2\n") + kSecond);
  EXPECT_EQ(files.limit(), std::nullopt);
  files.write("proc/self/cgroup", "\nstrange\n0::/a\n");
  files.write("sys/fs/cgroup/a/cpu.max", "");
  EXPECT_EQ(files.limit(), std::nullopt);
  for (const char* text : {"0 100000", "100000 0", "-5 100000", "words", "100000"}) {
    files.write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(files.limit(), std::nullopt) << text;
  }
}

TEST(CpuLimit, IsSharedByThoseUnderIt) {
  const CpuLimit limit{.cpus = 2.5};
  EXPECT_EQ(lanesWithin(limit, 1), 2);
  EXPECT_EQ(lanesWithin(limit, 2), 1);
  EXPECT_EQ(lanesWithin(limit, 3), 1);
  EXPECT_EQ(lanesWithin({.cpus = 0.3}, 1), 1);
  EXPECT_EQ(lanesWithin({.cpus = 8}, 2), 4);
}

}  // namespace
}  // namespace cohort
