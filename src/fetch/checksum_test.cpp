#include "fetch/checksum.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "fetch/test_archives.h"

namespace cohort {
namespace {

TEST(Checksum, IsThatOfTheStandards) {
  EXPECT_EQ(digestOf("abc", DigestKind::Md5), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(digestOf("abc", DigestKind::Sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Checksum, OfAFileIsThatOfItsBytesEvenWhereTheyAreGzip) {
  const TestDirectory folder;
  const std::string bytes = gzipped("abc");
  writeTestFile(folder / "a.gz", bytes);
  EXPECT_EQ(digestOfFile(folder / "a.gz", DigestKind::Md5), digestOf(bytes, DigestKind::Md5));
}

TEST(Contents, AreRightPlainAndGzippedHoweverManyBuffersTheyFill) {
  const TestDirectory folder;
  // Shorter and longer than a buffer, and one that inflates to far more than a buffer at once.
  for (const std::string& contents :
       {std::string("short"), noise(300'000, 1), noise(262'144, 2), std::string(5'000'000, 'x')}) {
    const KnownFile expected = knownFile("a", contents);
    writeTestFile(folder / "a", contents);
    writeTestFile(folder / "a.gz", gzipped(contents));
    EXPECT_EQ(faultOf(folder / "a", expected), "") << contents.size();
    EXPECT_EQ(faultOf(folder / "a.gz", expected), "") << contents.size();
  }
}

TEST(Contents, ThatAreShortLongOrDifferentAreFaults) {
  const TestDirectory folder;
  const std::string contents = noise(1000, 3);
  const KnownFile expected = knownFile("a", contents);
  const auto fault = [&](const std::string& file) {
    writeTestFile(folder / "a", file);
    return faultOf(folder / "a", expected);
  };
  EXPECT_EQ(fault(contents.substr(1)), "it holds 999 bytes instead of 1000");
  EXPECT_EQ(fault(contents + "x"), "it holds more than 1000 bytes");
  EXPECT_EQ(fault(gzipped(std::string(5'000'000, 'x'))), "it holds more than 1000 bytes");
  EXPECT_EQ(fault(""), "it holds 0 bytes instead of 1000");
  std::string other = contents;
  other[500] ^= 1;
  EXPECT_NE(fault(other).find("SHA-256"), std::string::npos);
  EXPECT_NE(fault(gzipped(other)).find("SHA-256"), std::string::npos);
}

TEST(Contents, OfADamagedGzipStreamAreFaults) {
  const TestDirectory folder;
  const std::string contents = noise(1000, 4);
  const KnownFile expected = knownFile("a", contents);
  const std::string whole = gzipped(contents);
  const auto fault = [&](const std::string& file) {
    writeTestFile(folder / "a", file);
    return faultOf(folder / "a", expected);
  };
  for (std::size_t size = 2; size < whole.size(); size += 17) {
    EXPECT_EQ(fault(whole.substr(0, size)), "its gzip stream is cut off") << size;
  }
  EXPECT_EQ(fault(whole + "x"), "something follows its gzip stream");
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // its checksum
  EXPECT_NE(fault(damaged).find("not valid"), std::string::npos);
}

TEST(Contents, OfAFileThatCannotBeReadAreAnErrorNotAFault) {
  const TestDirectory folder;
  EXPECT_THROW(faultOf(folder / "missing", knownFile("a", "")), IoError);
}

}  // namespace
}  // namespace cohort
