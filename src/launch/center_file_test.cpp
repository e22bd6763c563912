#include "launch/center_file.h"

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

std::vector<std::pair<int, std::string>> serversIn(const std::filesystem::path& folder) {
  std::vector<std::pair<int, std::string>> servers;
  for (const auto& [index, address] : readCenterFiles(folder).servers) servers.emplace_back(index, address);
  return servers;
}

using Servers = std::vector<std::pair<int, std::string>>;

TEST(CenterFile, IsThereAsLongAsTheCenter) {
  const TestDirectory folder;
  EXPECT_EQ(serversIn(folder.path()), Servers{});
  {
    const CenterFile file(folder.path(), 0, {"unix:/a", "unix:/b"});
    EXPECT_TRUE(std::filesystem::exists(folder / "center.txt"));
    EXPECT_EQ(serversIn(folder.path()), (Servers{{0, "unix:/a"}, {1, "unix:/b"}}));
    EXPECT_TRUE(readCenterFiles(folder.path()).credentials.empty());
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "center.txt"));
}

TEST(CenterFile, OfServersThatShareAFolderAreTold) {
  const TestDirectory folder;
  const CenterFile tenth(folder.path(), 10, {"h:10"});
  const CenterFile second(folder.path(), 2, {"h:2"}, "/keys/run.pem");
  EXPECT_EQ(serversIn(folder.path()), (Servers{{2, "h:2"}, {10, "h:10"}}));
  const CenterFile first(folder.path(), 0, {"h:0"});
  EXPECT_EQ(serversIn(folder.path()), (Servers{{0, "h:0"}, {2, "h:2"}, {10, "h:10"}}));
  EXPECT_EQ(readCenterFiles(folder.path()).credentials, "/keys/run.pem");
}

TEST(CenterFile, OtherFilesAreNone) {
  const TestDirectory folder;
  for (const char* name : {"center", "center-.txt", "center-x.txt", "center-01.txt", "center-1.txt~",
                           "center-0.txt", "center-99999999999.txt", "centers.txt", "xcenter.txt"}) {
    writeTestFile(folder / name, "h:1\n");
  }
  EXPECT_EQ(serversIn(folder.path()), Servers{});
  EXPECT_EQ(serversIn(folder / "nowhere"), Servers{});
}

}  // namespace
}  // namespace cohort
