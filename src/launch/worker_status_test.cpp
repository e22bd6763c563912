#include "launch/worker_status.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/host.h"
#include "base/test_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

WorkerStatus some(const std::string& name) {
  return {.name = name,
          .host = "n3",
          .process = 4711,
          .step = 812,
          .doing = "in forward conv2",
          .doingSeconds = 31.5,
          .waitsFor = "worker 1: its part of step 813",
          .waitsForAnother = true,
          .mayRest = true,
          .stillSeconds = 30.25,
          .written = 1.75e9,
          .failure = "no more"};
}

TEST(WorkerStatus, IsReadAsItWasWritten) {
  const TestDirectory directory;
  WorkerStatus server = some("0");
  server.isServer = true;
  ASSERT_TRUE(writeStatus(directory.path(), server));
  for (const char* name : {"10", "n3-4711", "2"}) ASSERT_TRUE(writeStatus(directory.path(), some(name)));
  EXPECT_THAT(readStatuses(directory.path()), ElementsAre(some("2"), some("10"), some("n3-4711"), server));
}

TEST(WorkerStatus, StaysOfOneSizeWithTextsOfAnyLength) {
  const TestDirectory directory;
  WorkerStatus status = some("0");
  ASSERT_TRUE(writeStatus(directory.path(), status));
  const fs::path file = statusFolder(directory.path()) / "worker-0.json";
  const auto size = fs::file_size(file);
  status.doing = status.waitsFor = status.host = status.failure = std::string(100000, '\1');
  ASSERT_TRUE(writeStatus(directory.path(), status));
  EXPECT_EQ(fs::file_size(file), size);
  EXPECT_EQ(readStatuses(directory.path()).size(), 1U);
  status.doing = "\xff\xfe";  // no UTF-8
  status.waitsFor = status.host = status.failure = "";
  ASSERT_TRUE(writeStatus(directory.path(), status));
  EXPECT_EQ(readStatuses(directory.path()).size(), 1U);
}

TEST(WorkerStatus, LeavesOutWhatIsNoneOfOurs) {
  const TestDirectory directory;
  EXPECT_TRUE(readStatuses(directory.path()).empty());
  fs::create_directory(statusFolder(directory.path()));
  for (const char* text : {"", "{", "[]", "{}", R"({"host": 1})"}) {
    std::ofstream(statusFolder(directory.path()) / "worker-0.json") << text;
    EXPECT_TRUE(readStatuses(directory.path()).empty()) << text;
  }
  std::ofstream(statusFolder(directory.path()) / "notes.txt") << "mine";
  ASSERT_TRUE(writeStatus(directory.path(), some("1")));
  EXPECT_THAT(readStatuses(directory.path()), ElementsAre(some("1")));
}

TEST(WorkerStatus, GoesWithItsFolder) {
  const TestDirectory directory;
  ASSERT_TRUE(writeStatus(directory.path(), some("0")));
  ASSERT_TRUE(writeStatus(directory.path(), some("1")));
  removeStatus(directory.path(), some("0"));
  EXPECT_THAT(readStatuses(directory.path()), ElementsAre(some("1")));
  removeStatus(directory.path(), some("1"));
  EXPECT_FALSE(fs::exists(statusFolder(directory.path())));
}

TEST(WorkerStatus, OfAProcessThatIsGoneIsTakenAway) {
  const TestDirectory directory;
  WorkerStatus own = some("0");
  own.host = hostName();
  own.process = ::getpid();
  WorkerStatus gone = own;
  gone.name = "1";
  gone.process = std::numeric_limits<int>::max();  // more than any
  ASSERT_TRUE(writeStatus(directory.path(), own));
  ASSERT_TRUE(writeStatus(directory.path(), gone));
  ASSERT_TRUE(writeStatus(directory.path(), some("2")));  // of another host
  EXPECT_TRUE(seemsGone(gone));
  removeDeadStatuses(directory.path());
  EXPECT_THAT(readStatuses(directory.path()), ElementsAre(own, some("2")));
}

TEST(WorkerStatus, ThatCannotBeWrittenIsNoError) {
  EXPECT_FALSE(writeStatus("/nonexistent/folder", some("0")));
}

}  // namespace
}  // namespace cohort
