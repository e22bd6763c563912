#include "train/job_directory.h"

#include <memory>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// The current folder, for as long as the object lives.
class InFolder {
 public:
  explicit InFolder(const fs::path& path) : before_(fs::current_path()) { fs::current_path(path); }
  ~InFolder() { fs::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  fs::path before_;
};

TEST(JobDirectory, IsMadeWithAllItsParents) {
  const TestDirectory scratch;
  const JobDirectory job(scratch / "a/b/c");
  EXPECT_TRUE(fs::is_directory(scratch / "a/b/c"));
  EXPECT_TRUE(fs::is_directory(job.checkpoints()));
}

TEST(JobDirectory, ASecondRunIsRefusedWhileTheFirstLives) {
  const TestDirectory scratch;
  auto first = std::make_unique<JobDirectory>(scratch / "job");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { JobDirectory{scratch / "job"}; }),
                  "another run is using " + (scratch / "job").string());
  first.reset();
  EXPECT_NO_THROW(JobDirectory{scratch / "job"});
}

TEST(JobDirectory, WhereNoFolderCanBeIsAnIoErrorThatNamesIt) {
  const TestDirectory scratch;
  writeTestFile(scratch / "file", "in the way");
  const fs::path path = scratch / "file/job";
  EXPECT_MENTIONS(errorOf<IoError>([&] { JobDirectory{path}; }), path.string());
  EXPECT_EQ(storedConfig(path), std::nullopt);
}

TEST(JobDirectory, ALockThatCannotBeWrittenIsAnIoError) {
  const TestDirectory scratch;
  fs::create_directories(scratch / "job/lock");
  EXPECT_THROW(JobDirectory(scratch / "job"), IoError);
}

TEST(JobDirectory, WhatAKilledRunHadHalfWrittenIsClearedAway) {
  const TestDirectory scratch;
  const fs::path path = scratch / "job";
  fs::create_directories(path / "checkpoints");
  writeTestFile(path / "summary.json.tmp-12-0", "{");
  writeTestFile(path / "checkpoints/step-0000000002.safetensors.tmp-12-1", "half");
  writeTestFile(path / "checkpoints/step-0000000001.safetensors", "whole");
  writeTestFile(path / "notes", "mine");
  const JobDirectory job(path);
  EXPECT_FALSE(fs::exists(path / "summary.json.tmp-12-0"));
  EXPECT_FALSE(fs::exists(path / "checkpoints/step-0000000002.safetensors.tmp-12-1"));
  EXPECT_TRUE(fs::exists(path / "checkpoints/step-0000000001.safetensors"));
  EXPECT_TRUE(fs::exists(path / "notes"));
}

TEST(JobDirectory, ANewOneInWhichNothingBeganIsRemovedAgain) {
  const TestDirectory scratch;
  { const JobDirectory job(scratch / "new"); }
  EXPECT_FALSE(fs::exists(scratch / "new"));
  fs::create_directory(scratch / "mine");
  { const JobDirectory job(scratch / "mine"); }
  EXPECT_TRUE(fs::exists(scratch / "mine"));
  { JobDirectory(scratch / "begun").writeConfig("lr: 1\n"); }
  EXPECT_TRUE(fs::exists(scratch / "begun/config.yaml"));
  {
    const JobDirectory job(scratch / "used");
    writeTestFile(scratch / "used/notes", "mine");
  }
  EXPECT_TRUE(fs::exists(scratch / "used/notes"));
}

TEST(JobDirectory, KeepsItsConfigurationAndSummary) {
  const TestDirectory scratch;
  EXPECT_EQ(storedConfig(scratch / "job"), std::nullopt);
  const JobDirectory job(scratch / "job");
  EXPECT_EQ(storedConfig(job.path()), std::nullopt);
  job.writeConfig("lr: 1\n");
  job.writeConfig("lr: 2\n");
  job.writeSummary("{}\n");
  EXPECT_EQ(storedConfig(job.path()), "lr: 2\n");
  EXPECT_TRUE(fs::exists(job.path() / "summary.json"));
}

TEST(JobDirectory, CheckpointsWithoutTheirConfigurationAreRefused) {
  const TestDirectory scratch;
  fs::create_directories(scratch / "job/checkpoints");
  EXPECT_EQ(storedConfig(scratch / "job"), std::nullopt);
  writeTestFile(scratch / "job/checkpoints/step-0000000001.safetensors", "weights");
  writeTestFile(scratch / "job/config.json", "{}");
  EXPECT_THROW(storedConfig(scratch / "job"), UsageError);
  writeTestFile(scratch / "job/config.yaml", "lr: 1\n");
  EXPECT_EQ(storedConfig(scratch / "job"), "lr: 1\n");
}

TEST(JobDirectory, WhereTheSystemLetsNobodyWriteIsAnIoError) {
  for (const char* path : {"/proc/job", "/proc/self/job", "/dev/null/job"}) {
    EXPECT_THROW(JobDirectory{path}, IoError) << path;
  }
}

TEST(JobDirectory, DefaultNamesCountUp) {
  const TestDirectory scratch;
  const InFolder here(scratch.path());
  const fs::path first = newJobDirectory("mnist-fc");
  EXPECT_EQ(first.parent_path(), "runs");
  EXPECT_TRUE(first.filename().string().starts_with("mnist-fc-20")) << first;
  EXPECT_TRUE(first.filename().string().ends_with("-1")) << first;
  fs::create_directories(first);
  EXPECT_TRUE(newJobDirectory("mnist-fc").filename().string().ends_with("-2"));
  EXPECT_TRUE(newJobDirectory("mnist-cnn").filename().string().ends_with("-1"));
}

}  // namespace
}  // namespace cohort
