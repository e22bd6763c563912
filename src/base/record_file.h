// Files of framed records: TensorFlow's TFRecord, which TensorBoard's event files are too.
//
//   file   := record*
//   record := length crc(length) data crc(data)
//   length := 64 bits, least significant byte first
//   crc(x) := 32 bits, least significant byte first: c = CRC-32C(x), rotated right by 15, plus 0xa282ead8
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

std::uint32_t crc32c(std::span<const std::byte> bytes);

// One record with its frame.
std::string frameRecord(std::string_view data);
// Appends the same to `out`.
void appendRecord(std::string& out, std::string_view data);

// Walks over the records in `contents` (a file that is mapped or read whole) without copying. Used by one thread.
class RecordReader {
 public:
  // `name` is the file's, for messages; `contents` outlives the reader.
  RecordReader(std::string_view contents, std::string name);

  // The next record's data; nothing at the end. IoError that names the file and the record's place where the file ends
  // inside a record or a checksum differs.
  std::optional<std::string_view> next();
  // Where the next record begins.
  std::size_t offset() const { return at_; }

 private:
  std::string_view contents_;
  std::string name_;
  std::size_t at_ = 0;
};

}  // namespace cohort
