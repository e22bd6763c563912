// A large float array of its own: zero at first, aligned to 64 bytes, backed by fresh pages of the operating
// system, so that pages never touched cost no memory and buffers of 4 MiB and more may sit on huge pages
// (fewer TLB misses when an optimizer streams over a whole arena).
//
// Thread safety: as a span; the owner decides who writes where. The array's place never changes, not even
// when the buffer is moved.
#pragma once

#include <cstddef>
#include <span>

namespace cohort {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  // Throws IoError when the system has no room for `size` floats.
  explicit FloatBuffer(std::size_t size);
  FloatBuffer(FloatBuffer&& other) noexcept;
  FloatBuffer& operator=(FloatBuffer&& other) noexcept;
  ~FloatBuffer();

  std::span<float> span() { return {data_, size_}; }
  std::span<const float> span() const { return {data_, size_}; }
  float* data() { return data_; }
  const float* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cohort
