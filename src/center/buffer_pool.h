// Arenas of one size that are used again and again: fresh memory costs more than what is done with it. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/float_buffer.h"

namespace cohort {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(std::size_t size) : size_(size) {}

  FloatBuffer take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return FloatBuffer(size_);
    FloatBuffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give(FloatBuffer buffer) {
    constexpr std::size_t kMostFree = 4;
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
  }
  // Comes back by itself when nobody needs it any more.
  std::shared_ptr<const FloatBuffer> share(FloatBuffer buffer) {
    return {new FloatBuffer(std::move(buffer)), [pool = shared_from_this()](const FloatBuffer* shared) {
              auto* own = const_cast<FloatBuffer*>(shared);
              pool->give(std::move(*own));
              delete own;
            }};
  }

 private:
  std::size_t size_;
  std::mutex mutex_;
  std::vector<FloatBuffer> free_;
};

}  // namespace cohort
