#include "launch/run_end.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/test_directory.h"

namespace cohort {
namespace {

TEST(RunEnd, IsReadFromTheSummary) {
  const TestDirectory scratch;
  EXPECT_FALSE(readRunEnd(scratch.path()));
  for (const char* text : {"", "{", "[1]", "{}", R"({"step": "7"})"}) {
    writeWholeFile(scratch / "summary.json", text);
    EXPECT_FALSE(readRunEnd(scratch.path())) << text;
  }
  for (const bool isInterrupted : {false, true}) {
    writeWholeFile(scratch / "summary.json",
                   isInterrupted ? R"({"step": 7, "interrupted": true})" : R"({"step": 7})");
    const std::optional<RunEnd> end = readRunEnd(scratch.path());
    ASSERT_TRUE(end);
    EXPECT_EQ(end->step, 7);
    EXPECT_EQ(end->isInterrupted, isInterrupted);
  }
}

TEST(RunEndWatch, SeesOnlyWhatCameSince) {
  const TestDirectory scratch;
  const RunEndWatch fromTheStart(scratch.path());
  EXPECT_FALSE(fromTheStart.look());
  writeWholeFile(scratch / "summary.json", R"({"step": 50, "interrupted": true})");
  EXPECT_TRUE(fromTheStart.look());
  const RunEndWatch ofTheSecondPart(scratch.path());
  EXPECT_FALSE(ofTheSecondPart.look());
  writeWholeFile(scratch / "summary.json", R"({"step": 90, "interrupted": false})");
  ASSERT_TRUE(ofTheSecondPart.look());
  EXPECT_EQ(ofTheSecondPart.look()->step, 90);
}

}  // namespace
}  // namespace cohort
