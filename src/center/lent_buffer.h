// Floats that others may still read while their owner goes on: changed in place where nobody does, and left to the readers where
// somebody does. One thread owns it; readers may be on any.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "center/buffer_pool.h"

namespace cohort {

class LentBuffer {
 public:
  explicit LentBuffer(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)), floats_(make()) {}

  std::span<float> span() { return floats_->buffer.span(); }
  std::size_t size() const { return floats_->buffer.size(); }

  // As they are now; they stay so as long as the reader has them.
  std::shared_ptr<const FloatBuffer> lend() {
    floats_->readers.fetch_add(1, std::memory_order_relaxed);
    return {&floats_->buffer,
            [lent = floats_](const FloatBuffer*) { lent->readers.fetch_sub(1, std::memory_order_release); }};
  }
  // Before they are changed. True where they have moved to another place, since somebody reads them.
  bool takeBack() {
    if (floats_->readers.load(std::memory_order_acquire) == 0) return false;
    const std::shared_ptr<Floats> copy = make();
    std::ranges::copy(span(), copy->buffer.data());
    floats_ = copy;
    return true;
  }

 private:
  struct Floats {
    FloatBuffer buffer;
    std::atomic<int> readers = 0;
  };

  std::shared_ptr<Floats> make() {
    return {new Floats{.buffer = pool_->take()}, [pool = pool_](Floats* floats) {
              pool->give(std::move(floats->buffer));
              delete floats;
            }};
  }

  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<Floats> floats_;
};

}  // namespace cohort
