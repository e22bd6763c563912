#include "cli/grace_watch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

class Warnings : public Screen {
 public:
  void progress(const ProgressReport&) override {}
  void endProgress() override {}
  void detail(const std::string&) override {}
  void print(const std::string&) override {}
  void result(const std::string&) override {}
  void warn(const std::string& what) override { all.push_back(what); }

  std::vector<std::string> all;
};

RunObserver::Started startWith(std::uint64_t checkpointBytes) {
  RunObserver::Started run;
  run.checkpointBytes = checkpointBytes;
  return run;
}

TEST(GraceWatch, KnowsTheTimeThatTheScriptTells) {
  EXPECT_EQ(graceSeconds({{"COHORT_GRACE_SECONDS", "120"}}), 120);
  EXPECT_EQ(graceSeconds({}), std::nullopt);
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    graceSeconds({{"COHORT_GRACE_SECONDS", "long"}});
                  }),
                  "COHORT_GRACE");
}

TEST(GraceWatch, WantsHalfOfTheTimeLeft) {
  EXPECT_EQ(graceNote(120, 60, "all"), "");
  EXPECT_MENTIONS(graceNote(120, 61, "all"), "needs about 61.0 s (all), and it is told 120 s before its end");
  EXPECT_MENTIONS(graceNote(120, 61, "all"), "--grace 244 would do");
}

TEST(GraceWatch, MeasuresTheDiskAtTheStart) {
  const TestDirectory scratch;
  Warnings warnings;
  GraceWatch watch(0.001, scratch.path(), warnings);
  watch.started(startWith(std::uint64_t{1} << 40));
  ASSERT_EQ(warnings.all.size(), 1U);
  EXPECT_MENTIONS(warnings.all.front(), "how fast the disk is");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "what was measured with is gone";
}

TEST(GraceWatch, WarnsOnceOfWhatCheckpointsTook) {
  const TestDirectory scratch;
  Warnings warnings;
  GraceWatch watch(10, scratch.path(), warnings);
  watch.started(startWith(1000));
  watch.checkpointWritten(1);
  EXPECT_TRUE(warnings.all.empty());
  watch.checkpointWritten(6);
  watch.checkpointWritten(7);
  EXPECT_EQ(warnings.all.size(), 1U);
}

}  // namespace
}  // namespace cohort
