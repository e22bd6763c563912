#include "data/idx_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "base/atomic_file.h"
#include "base/error.h"

namespace cohort {
namespace {

// The bytes of a file's contents, in order, after any decompression.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` as far as there are bytes; returns how many there were.
  virtual std::size_t read(std::span<std::uint8_t> out) = 0;
  // No well-formed stream of this file's length holds more bytes.
  virtual std::uint64_t upperBound() const = 0;
  // Bytes of the file that lie behind the end of the stream; asked at its end.
  virtual std::size_t unread() const = 0;
};

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(std::string_view contents) : contents_(contents) {}

  std::size_t read(std::span<std::uint8_t> out) override {
    const std::size_t size = std::min(out.size(), contents_.size() - at_);
    if (size > 0) std::memcpy(out.data(), contents_.data() + at_, size);
    at_ += size;
    return size;
  }
  std::uint64_t upperBound() const override { return contents_.size(); }
  std::size_t unread() const override { return contents_.size() - at_; }

 private:
  std::string_view contents_;
  std::size_t at_ = 0;
};

class GzipStream final : public ByteStream {
 public:
  GzipStream(std::string path, std::string_view contents) : path_(std::move(path)), contents_(contents) {
    constexpr int kGzipOnly = 16;
    COHORT_CHECK(inflateInit2(&state_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib cannot start");
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<std::uint8_t> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      feed();
      const std::size_t room = std::min(out.size() - done, kLargestCall);
      state_.next_out = out.data() + done;
      state_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&state_, Z_NO_FLUSH);
      done += room - state_.avail_out;
      ended_ = result == Z_STREAM_END;
      if (result == Z_BUF_ERROR) {
        throw IoError(
            fmt::format("{} ends in the middle of its gzip stream: it is truncated; fetch it again.", path_));
      }
      if (result != Z_OK && !ended_) {
        throw IoError(fmt::format("{} is not a valid gzip stream ({}); fetch it again.", path_,
                                  state_.msg == nullptr ? "unknown error" : state_.msg));
      }
    }
    return done;
  }
  // Deflate makes at most 1,032 bytes of one.
  std::uint64_t upperBound() const override { return std::uint64_t{contents_.size()} * 1032; }
  std::size_t unread() const override { return contents_.size() - fed_ + state_.avail_in; }

 private:
  static constexpr std::size_t kLargestCall = std::size_t{1} << 30;  // zlib counts in 32 bits

  void feed() {
    if (state_.avail_in != 0) return;
    const std::size_t size = std::min(contents_.size() - fed_, kLargestCall);
    // zlib does not write through it, but its oldest interface says it might.
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents_.data() + fed_));
    state_.avail_in = static_cast<uInt>(size);
    fed_ += size;
  }

  std::string path_;
  std::string_view contents_;
  std::size_t fed_ = 0;
  z_stream state_{};
  bool ended_ = false;
};

std::unique_ptr<ByteStream> openStream(const std::string& path, std::string_view contents) {
  if (contents.starts_with("\x1f\x8b")) return std::make_unique<GzipStream>(path, contents);
  return std::make_unique<PlainStream>(contents);
}

std::uint32_t readNumber(ByteStream& stream, const std::string& path) {
  std::array<std::uint8_t, 4> bytes{};
  if (stream.read(bytes) != bytes.size()) {
    throw IoError(fmt::format("{} ends inside its header: it is truncated; fetch it again.", path));
  }
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         bytes[3];
}

std::vector<std::uint32_t> readHeader(ByteStream& stream, const std::string& path, int dimensions) {
  constexpr std::uint32_t kUnsignedBytes = 0x08;
  const std::uint32_t expected = kUnsignedBytes << 8 | static_cast<std::uint32_t>(dimensions);
  const std::uint32_t magic = readNumber(stream, path);
  if (magic != expected) {
    throw IoError(fmt::format(
        "{} begins with {:#010x}, but an IDX file of bytes in {} dimension{} begins with {:#010x}.", path,
        magic, dimensions, dimensions == 1 ? "" : "s", expected));
  }
  std::vector<std::uint32_t> extents(static_cast<std::size_t>(dimensions));
  for (std::uint32_t& extent : extents) extent = readNumber(stream, path);
  return extents;
}

// The number of values, or one more than any stream can hold where the product is out of range.
std::uint64_t product(std::span<const std::uint32_t> extents) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t result = 1;
  for (const std::uint64_t extent : extents) {
    if (extent == 0) return 0;
    result = result > kMost / extent ? kMost : result * extent;
  }
  return result;
}

}  // namespace

IdxArray readIdx(const std::filesystem::path& path, int dimensions) {
  const std::string name = path.string();
  const std::string contents = readWholeFile(path);
  const auto stream = openStream(name, contents);
  IdxArray array{.extents = readHeader(*stream, name, dimensions), .values = {}};

  const std::uint64_t announced = product(array.extents);
  std::uint64_t present = 0;
  if (announced <= stream->upperBound()) {
    array.values.resize(announced);
    present = stream->read(array.values);
  }
  if (present != announced) {
    throw IoError(fmt::format(
        "{} is truncated: its header announces {} values, which it does not hold; fetch it again.", name,
        announced));
  }
  // Reading past the last value also lets gzip compare its checksum.
  std::array<std::uint8_t, 1> extra{};
  if (stream->read(extra) != 0 || stream->unread() != 0) {
    throw IoError(fmt::format("{} goes on after the {} values that its header announces; fetch it again.",
                              name, announced));
  }
  return array;
}

}  // namespace cohort
