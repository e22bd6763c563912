#include "fetch/inflated_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_error.h"
#include "fetch/failure.h"

namespace cohort {
namespace {

constexpr std::size_t kRawBytes = std::size_t{256} << 10;

}  // namespace

InflatedFile::InflatedFile(const std::filesystem::path& path, Mode mode) : path_(path), raw_(kRawBytes) {
  descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor_) throwFileError("open", path, errno);
  refill();
  gzip_ =
      mode == Mode::InflateGzip && rawSize_ >= 2 && raw_[0] == std::byte{0x1f} && raw_[1] == std::byte{0x8b};
  constexpr int kGzipOnly = 16;
  if (gzip_) COHORT_CHECK(inflateInit2(&state_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib cannot start");
}

InflatedFile::~InflatedFile() {
  if (gzip_) inflateEnd(&state_);
}

// As much as fits; less only at the end of the file.
std::size_t InflatedFile::readRaw(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::read(descriptor_.get(), out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throwFileError("read", path_, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void InflatedFile::refill() {
  rawAt_ = 0;
  rawSize_ = readRaw(raw_);
}

std::size_t InflatedFile::read(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (rawAt_ == rawSize_) refill();
    const bool atEnd = rawSize_ == 0;
    if (gzip_ && !ended_) {
      done += inflateInto(out.subspan(done));
      continue;
    }
    if (atEnd) break;
    if (ended_) throw Damaged("something follows its gzip stream");
    const std::size_t size = std::min(out.size() - done, rawSize_ - rawAt_);
    std::memcpy(out.data() + done, raw_.data() + rawAt_, size);
    rawAt_ += size;
    done += size;
  }
  return done;
}

// Also called without input: zlib may hold back output for which there was no room.
std::size_t InflatedFile::inflateInto(std::span<std::byte> out) {
  const std::size_t room = std::min(out.size(), std::size_t{1} << 30);  // zlib counts in 32 bits
  state_.next_in = reinterpret_cast<Bytef*>(raw_.data() + rawAt_);
  state_.avail_in = static_cast<uInt>(rawSize_ - rawAt_);
  state_.next_out = reinterpret_cast<Bytef*>(out.data());
  state_.avail_out = static_cast<uInt>(room);
  const int result = inflate(&state_, Z_NO_FLUSH);
  rawAt_ = rawSize_ - state_.avail_in;
  ended_ = result == Z_STREAM_END;
  if (result == Z_BUF_ERROR && rawSize_ == 0) throw Damaged("its gzip stream is cut off");
  if (result != Z_OK && result != Z_BUF_ERROR && !ended_) {
    throw Damaged(fmt::format("its gzip stream is not valid ({})",
                              state_.msg == nullptr ? "unknown error" : state_.msg));
  }
  return room - state_.avail_out;
}

}  // namespace cohort
