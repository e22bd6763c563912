#include "base/record_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

static_assert(std::endian::native == std::endian::little, "the frames are read and written in place");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kHeaderBytes = kLengthBytes + kChecksumBytes;

// kTables[0] is the usual table of CRC-32C by bytes (Castagnoli's polynomial, its bits reversed); kTables[k] is the same
// for a byte that k more bytes follow, so that eight bytes are taken in one step ("slicing by eight").
constexpr std::uint32_t kPolynomial = 0x82f63b78;
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables makeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xffu];
    }
  }
  return tables;
}

constexpr Tables kTables = makeTables();

template <typename Value>
Value load(const void* from) {
  Value value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename Value>
void appendValue(std::string& out, Value value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(Value)>>(value);
  out.append(bytes.data(), bytes.size());
}

// Masked, because the CRC of data that ends with its own CRC is always the same, and records may hold records.
std::uint32_t maskedChecksum(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    const std::uint64_t word = load<std::uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < kSlices; ++i) crc ^= kTables[kSlices - 1 - i][(word >> (8 * i)) & 0xffu];
  }
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffu];
  }
  return ~crc;
}

void appendRecord(std::string& out, std::string_view data) {
  const std::size_t begin = out.size();
  appendValue<std::uint64_t>(out, data.size());
  appendValue(out, maskedChecksum(std::string_view{out}.substr(begin, kLengthBytes)));
  out.append(data);
  appendValue(out, maskedChecksum(data));
}

std::string frameRecord(std::string_view data) {
  std::string record;
  record.reserve(kHeaderBytes + data.size() + kChecksumBytes);
  appendRecord(record, data);
  return record;
}

RecordReader::RecordReader(std::string_view contents, std::string name)
    : contents_(contents), name_(std::move(name)) {}

std::optional<std::string_view> RecordReader::next() {
  const std::string_view rest = contents_.substr(at_);
  if (rest.empty()) return std::nullopt;
  const auto refuse = [&](std::string_view why) {
    throw IoError(fmt::format("{} is damaged: the record at byte {} {}.", name_, at_, why));
  };
  if (rest.size() < kHeaderBytes) refuse("ends inside its header");
  if (load<std::uint32_t>(rest.data() + kLengthBytes) != maskedChecksum(rest.substr(0, kLengthBytes))) {
    refuse("has a length with a wrong checksum");
  }
  const auto length = load<std::uint64_t>(rest.data());
  const std::size_t behind = rest.size() - kHeaderBytes;
  if (behind < kChecksumBytes || length > behind - kChecksumBytes) {
    refuse(fmt::format("should have {} bytes of data and a checksum, but {} bytes follow its header", length,
                       behind));
  }
  const std::string_view data = rest.substr(kHeaderBytes, length);
  if (load<std::uint32_t>(data.data() + data.size()) != maskedChecksum(data)) {
    refuse("has data with a wrong checksum");
  }
  at_ += kHeaderBytes + length + kChecksumBytes;
  return data;
}

}  // namespace cohort
