#include "base/atomic_file.h"

#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> filesIn(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

// While it lives, a write beyond `bytes` fails as on a full disk (with EFBIG instead of SIGXFSZ).
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    previousHandler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previousHandler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit previous_{};
  void (*previousHandler_)(int) = nullptr;
};

TEST(AtomicFile, IsNotThereBeforeTheCommit) {
  const TestDirectory directory;
  AtomicFile file(directory / "a");
  file.write("half");
  EXPECT_FALSE(fs::exists(directory / "a"));
  file.write(" and half");
  file.commit();
  EXPECT_EQ(readWholeFile(directory / "a"), "half and half");
  EXPECT_EQ(filesIn(directory.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, WritesInTheTargetsFolderUnderAMarkedName) {
  const TestDirectory directory;
  const AtomicFile file(directory / "a");
  const auto names = filesIn(directory.path());
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names[0].starts_with(std::string("a").append(kTemporaryMark))) << names[0];
}

TEST(AtomicFile, HasItsModeBeforeItsFirstByte) {
  const TestDirectory directory;
  writeWholeFile(directory / "a", "open to all");
  fs::permissions(directory / "a", fs::perms{0644});
  const mode_t before = ::umask(0);
  AtomicFile file(directory / "a", 0600);
  ::umask(before);
  EXPECT_EQ(fs::status(file.temporary()).permissions(), fs::perms{0600});
  file.commit();
  EXPECT_EQ(fs::status(directory / "a").permissions(), fs::perms{0600});
}

TEST(AtomicFile, CommitReplacesAnOlderFile) {
  const TestDirectory directory;
  writeWholeFile(directory / "a", "a long old text");
  writeWholeFile(directory / "a", "new");
  EXPECT_EQ(readWholeFile(directory / "a"), "new");
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndTheTemporaryGoes) {
  const TestDirectory directory;
  writeWholeFile(directory / "a", "old");
  {
    AtomicFile file(directory / "a");
    file.write("new");
  }
  EXPECT_EQ(readWholeFile(directory / "a"), "old");
  EXPECT_EQ(filesIn(directory.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  const TestDirectory directory;
  writeWholeFile(directory / "a", "old");
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message = errorOf<IoError>([&] { writeWholeFile(directory / "a", std::string(5000, 'x')); });
  }
  EXPECT_MENTIONS(message, (directory / "a").string());
  EXPECT_MENTIONS(message, "File too large");
  EXPECT_EQ(readWholeFile(directory / "a"), "old");
  EXPECT_EQ(filesIn(directory.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFailedRenameLeavesNoTemporary) {
  const TestDirectory directory;
  fs::create_directories(directory / "a" / "occupied");
  const std::string message = errorOf<IoError>([&] { writeWholeFile(directory / "a", "x"); });
  EXPECT_MENTIONS(message, "Cannot replace");
  EXPECT_EQ(filesIn(directory.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, NamesTheMissingFolder) {
  const TestDirectory directory;
  const std::string message = errorOf<IoError>([&] { writeWholeFile(directory / "missing" / "a", "x"); });
  EXPECT_MENTIONS(message, (directory / "missing").string());
  EXPECT_MENTIONS(message, "No such file or directory");
}

TEST(AtomicFile, TwoWritersOfOneTargetDoNotDisturbEachOther) {
  const TestDirectory directory;
  AtomicFile first(directory / "a");
  AtomicFile second(directory / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(readWholeFile(directory / "a"), "first");
}

TEST(AtomicFile, ThreadsWriteAtTheirOwnPlaces) {
  const TestDirectory directory;
  constexpr std::size_t kPart = 100'000;
  AtomicFile file(directory / "a");
  {
    std::vector<std::jthread> writers;
    for (std::size_t part = 0; part < 4; ++part) {
      writers.emplace_back([&file, part] {
        const std::string text(kPart, static_cast<char>('a' + part));
        file.writeAt(4 + part * kPart, std::as_bytes(std::span(text)));
      });
    }
  }
  file.write("head");
  file.commit();
  const std::string text = readWholeFile(directory / "a");
  ASSERT_EQ(text.size(), 4 + 4 * kPart);
  EXPECT_EQ(text.substr(0, 5), "heada");
  EXPECT_EQ(text.substr(4 + kPart - 1, 2), "ab");
  EXPECT_EQ(text.back(), 'd');
}

TEST(ReadWholeFile, ReadsEmptyBinaryAndSizelessFiles) {
  const TestDirectory directory;
  writeWholeFile(directory / "empty", "");
  EXPECT_EQ(readWholeFile(directory / "empty"), "");
  const std::string binary("\0\xff\n\r\0", 5);
  writeWholeFile(directory / "binary", binary);
  EXPECT_EQ(readWholeFile(directory / "binary"), binary);
  EXPECT_FALSE(readWholeFile("/proc/self/status").empty());
  EXPECT_EQ(readWholeFile("/dev/zero", 5), std::string(5, 0));
  EXPECT_EQ(readWholeFile(directory / "binary", 2), binary.substr(0, 2));
}

TEST(ReadWholeFile, SaysWhyItCannot) {
  const TestDirectory directory;
  EXPECT_EQ(errorOf<IoError>([&] { readWholeFile(directory / "none"); }),
            "Cannot open " + (directory / "none").string() + ": No such file or directory.");
  EXPECT_EQ(errorOf<IoError>([&] { readWholeFile(directory.path()); }),
            "Cannot read " + directory.path().string() + ": Is a directory.");
}

}  // namespace
}  // namespace cohort
