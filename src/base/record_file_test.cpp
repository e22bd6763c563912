#include "base/record_file.h"

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint32_t crcOf(const Bytes& bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

std::uint32_t crcOfText(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

// One bit after the other, as the definition has it.
std::uint32_t plainCrc(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, IsThatOfThePublishedVectors) {
  EXPECT_EQ(crcOf(Bytes(32, 0x00)), 0x8a9136aau);
  EXPECT_EQ(crcOf(Bytes(32, 0xff)), 0x62a8ab43u);
  Bytes ascending(32);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(crcOf(ascending), 0x46dd794eu);
  EXPECT_EQ(crcOf(Bytes(ascending.rbegin(), ascending.rend())), 0x113fdb5cu);
  const Bytes iscsiRead = {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                           0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
                           0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
                           0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(crcOf(iscsiRead), 0xd9963a56u);
  EXPECT_EQ(crcOfText("123456789"), 0xe3069283u);
  EXPECT_EQ(crcOfText(""), 0u);
}

TEST(Crc32c, IsThatOfTheDefinitionForAllLengthsAndPlaces) {
  Bytes bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i * 7 + i * 3 + 1);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t end = begin; end <= bytes.size(); ++end) {
      const auto part = std::span<const std::uint8_t>(bytes).subspan(begin, end - begin);
      EXPECT_EQ(crc32c(std::as_bytes(part)), plainCrc(part)) << begin << " " << end;
    }
  }
}

std::vector<std::string> readAll(std::string_view contents) {
  RecordReader reader(contents, "a.tfrecord");
  std::vector<std::string> records;
  while (const auto record = reader.next()) records.emplace_back(*record);
  EXPECT_EQ(reader.offset(), contents.size());
  EXPECT_EQ(reader.next(), std::nullopt);
  return records;
}

std::string messageOf(std::string_view contents) {
  return errorOf<IoError>([&] {
    RecordReader reader(contents, "a.tfrecord");
    while (reader.next()) {
    }
  });
}

TEST(RecordFile, HasTheBytesOfItsDefinition) {
  const std::string record = frameRecord("abc");
  ASSERT_EQ(record.size(), 8u + 4u + 3u + 4u);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  const auto masked = [](std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; };
  const auto at = [&](std::size_t place) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = (value << 8) | static_cast<std::uint8_t>(record[place + i]);
    return value;
  };
  EXPECT_EQ(at(8), masked(crcOf({3, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(at(15), masked(crcOfText("abc")));
}

TEST(RecordFile, GivesBackWhatWasWritten) {
  const std::vector<std::string> records = {"first", "", std::string(100'000, 'x'),
                                            std::string("\0\xff\n", 3)};
  std::string contents;
  for (const std::string& record : records) appendRecord(contents, record);
  EXPECT_EQ(readAll(contents), records);
  EXPECT_EQ(readAll(""), std::vector<std::string>{});
  EXPECT_EQ(frameRecord("first") + frameRecord(""), contents.substr(0, 5 + 2 * 16));
}

TEST(RecordFile, ThatEndsInsideARecordIsRefused) {
  const std::string first = frameRecord("first");
  const std::string contents = first + frameRecord("second record");
  for (std::size_t size = 1; size < contents.size(); ++size) {
    if (size == first.size()) continue;
    const std::string message = messageOf(std::string_view{contents}.substr(0, size));
    EXPECT_MENTIONS(message, "a.tfrecord") << size;
    EXPECT_MENTIONS(message, size < first.size() ? "at byte 0 " : "at byte 21 ") << size;
  }
}

TEST(RecordFile, WithAnyBitFlippedIsRefused) {
  const std::string good = frameRecord("first") + frameRecord("second record");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(static_cast<unsigned char>(bad[bit / 8]) ^ (1u << (bit % 8)));
    EXPECT_NE(messageOf(bad), "no error") << bit;
  }
}

// Its own checksum is right, so that only the comparison with the file's end can catch it.
TEST(RecordFile, ThatAnnouncesMoreThanItHasIsRefused) {
  for (const std::uint64_t length :
       {std::uint64_t{4}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
    std::string contents;
    for (unsigned i = 0; i < 8; ++i) contents.push_back(static_cast<char>(length >> (8 * i)));
    const std::uint32_t crc = crcOfText(contents);
    const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    for (unsigned i = 0; i < 4; ++i) contents.push_back(static_cast<char>(masked >> (8 * i)));
    EXPECT_MENTIONS(messageOf(contents), std::to_string(length)) << length;
    contents += "1234567";  // one byte too few for the first
    EXPECT_MENTIONS(messageOf(contents), std::to_string(length)) << length;
  }
}

TEST(RecordFile, StaysWhereItIsAfterADamagedRecord) {
  std::string contents = frameRecord("first") + frameRecord("second");
  contents.back() ^= 1;
  RecordReader reader(contents, "a.tfrecord");
  EXPECT_EQ(reader.next(), "first");
  EXPECT_THROW(reader.next(), IoError);
  EXPECT_EQ(reader.offset(), frameRecord("first").size());
  EXPECT_THROW(reader.next(), IoError);
}

TEST(RecordFile, OfOtherProgramsAreRead) {
  const char* folder = std::getenv("COHORT_TEST_VECTORS");
  if (folder == nullptr) GTEST_SKIP() << "Set COHORT_TEST_VECTORS to a folder with record files.";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".tfrecord") && name.find(".tfevents.") == std::string::npos) continue;
    ++files;
    const std::string contents = readWholeFile(entry.path());
    const std::vector<std::string> records = readAll(contents);
    EXPECT_FALSE(records.empty()) << name;
    std::string again;
    for (const std::string& record : records) appendRecord(again, record);
    EXPECT_TRUE(again == contents) << name;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace cohort
