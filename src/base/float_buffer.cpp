#include "base/float_buffer.h"

#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kHugePagesFrom = 2 * kHugePageBytes;  // bytes; smaller buffers would mostly be edges

[[noreturn]] void refuse(std::size_t floats, int errorNumber) {
  throw IoError(fmt::format(
      "Could not reserve memory for {} floats: {}. Free memory or use a smaller batch or network.", floats,
      systemMessage(errorNumber)));
}

std::byte* mapPages(std::size_t floats, std::size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) refuse(floats, errno);
  return static_cast<std::byte*>(pages);
}

// Maps one huge page too many and gives back both edges, so that the buffer starts on a huge page's border.
std::byte* mapHugePages(std::size_t floats, std::size_t bytes) {
  std::byte* mapped = mapPages(floats, bytes + kHugePageBytes);
  const std::size_t head =
      (kHugePageBytes - reinterpret_cast<std::uintptr_t>(mapped) % kHugePageBytes) % kHugePageBytes;
  if (head > 0) munmap(mapped, head);
  std::byte* pages = mapped + head;
  munmap(pages + bytes, kHugePageBytes - head);
  // Advice only: where huge pages are switched off, ordinary ones do.
  madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

std::size_t mappedBytes(std::size_t floats) {
  constexpr std::size_t kPageBytes = 4096;
  const std::size_t bytes = floats * sizeof(float);
  const std::size_t unit = bytes >= kHugePagesFrom ? kHugePageBytes : kPageBytes;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

FloatBuffer::FloatBuffer(std::size_t size) : size_(size) {
  if (size == 0) return;
  if (size > std::numeric_limits<std::ptrdiff_t>::max() / (2 * sizeof(float))) refuse(size, ENOMEM);
  const std::size_t bytes = mappedBytes(size);
  data_ =
      reinterpret_cast<float*>(bytes >= kHugePagesFrom ? mapHugePages(size, bytes) : mapPages(size, bytes));
}

FloatBuffer::FloatBuffer(FloatBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FloatBuffer& FloatBuffer::operator=(FloatBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FloatBuffer::~FloatBuffer() {
  if (data_ != nullptr) munmap(data_, mappedBytes(size_));
}

}  // namespace cohort
