#include "fetch/tar.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "fetch/failure.h"
#include "fetch/test_archives.h"

namespace cohort {
namespace {

// Unpacks everything, with the slashes of the names made dashes; what was written, by name.
std::map<std::string, std::string> unpacked(const std::string& archive) {
  const TestDirectory folder;
  writeTestFile(folder / "archive", archive);
  std::vector<std::string> names;
  unpackTar(folder / "archive", [&](const std::string& member) {
    names.push_back(member);
    return std::optional(folder / std::to_string(names.size()));
  });
  std::map<std::string, std::string> files;
  for (std::size_t i = 0; i < names.size(); ++i) {
    files[names[i]] = readWholeFile(folder / std::to_string(i + 1));
  }
  return files;
}

std::string damageOf(const std::string& archive) {
  return errorOf<Damaged>([&] { unpacked(archive); });
}

TEST(Tar, GivesItsFilesPlainAndGzipped) {
  const std::string large = noise(300'000, 1);
  const std::string archive = tarMember("d/", "", '5') + tarMember("d/a", "hello") +
                              tarMember("d/empty", "") + tarMember("d/block", noise(512, 2)) +
                              tarMember("d/large", large) + tarEnd();
  const std::map<std::string, std::string> expected = {
      {"d/a", "hello"}, {"d/empty", ""}, {"d/block", noise(512, 2)}, {"d/large", large}};
  EXPECT_EQ(unpacked(archive), expected);
  EXPECT_EQ(unpacked(gzipped(archive)), expected);
}

TEST(Tar, WritesNothingThatIsNoRegularFile) {
  const std::string archive = tarMember("link", "", '2') + tarMember("hard", "", '1') +
                              tarMember("device", "", '3') + tarMember("pax", "12 path=../x\n", 'x') +
                              tarMember("a", "a") + tarEnd();
  EXPECT_EQ(unpacked(archive), (std::map<std::string, std::string>{{"a", "a"}}));
}

TEST(Tar, PassesOverWhatHasNoPlace) {
  const TestDirectory folder;
  writeTestFile(folder / "archive", tarMember("a", noise(2000, 1)) + tarMember("b", "b") + tarEnd());
  unpackTar(folder / "archive", [&](const std::string& member) -> std::optional<std::filesystem::path> {
    if (member != "b") return std::nullopt;
    return folder / "b";
  });
  EXPECT_EQ(readWholeFile(folder / "b"), "b");
}

TEST(Tar, WithANameThatLeadsElsewhereIsRefused) {
  for (const std::string name : {"../a", "a/../../b", "/etc/a", ".."}) {
    EXPECT_MENTIONS(damageOf(tarMember(name, "x") + tarEnd()), name) << name;
  }
  EXPECT_EQ(damageOf(tarMember("a..b", "x") + tarMember("..c", "x") + tarEnd()), "no error");
}

TEST(Tar, ThatIsCutOffIsRefusedWhereverItIs) {
  const std::string archive = tarMember("a", "hello") + tarMember("b", noise(700, 1)) + tarEnd();
  for (std::size_t size = 0; size <= archive.size() - 1024; size += 100) {
    EXPECT_EQ(damageOf(archive.substr(0, size)), "its tar archive is cut off") << size;
  }
  const std::string small = gzipped(archive);
  EXPECT_EQ(damageOf(small.substr(0, small.size() - 3)), "its gzip stream is cut off");
}

TEST(Tar, WithADamagedHeaderIsRefused) {
  std::string archive = tarMember("a", "hello") + tarEnd();
  archive[1] = 'x';
  EXPECT_MENTIONS(damageOf(archive), "header");
  EXPECT_MENTIONS(damageOf(std::string(2048, 'x')), "header");
}

// 8 GiB, as 12 octal digits can say, in an archive of 2 KiB.
TEST(Tar, IsNotBelievedWhenItAnnouncesMoreThanItHolds) {
  std::string member = tarMember("a", "hello");
  member.replace(124, 11, "77777777777");
  unsigned sum = 0;
  member.replace(148, 8, 8, ' ');
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(member[i]);
  member.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  EXPECT_EQ(damageOf(member + tarEnd()), "its tar archive is cut off");
}

TEST(Tar, ThatCannotBeWrittenIsAnErrorWithTheFilesName) {
  const TestDirectory folder;
  writeTestFile(folder / "archive", tarMember("a", "hello") + tarEnd());
  const auto unpack = [&] {
    unpackTar(folder / "archive", [&](const std::string&) { return std::optional(folder / "no" / "a"); });
  };
  EXPECT_MENTIONS(errorOf<IoError>(unpack), (folder / "no" / "a").string());
}

}  // namespace
}  // namespace cohort
